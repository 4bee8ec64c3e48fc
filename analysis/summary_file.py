"""summary.json: what an analysis found, in a few numbers, for a reader or a script."""

import json
import math
from pathlib import Path
from typing import Any

from analysis.stats.estimate import Estimate
from vineppo.errors import UserError
from vineppo.run_dir.files import write_atomic
from vineppo.run_dir.files import strict_json

FILE_NAME = "summary.json"


def write_summary(out: Path, name: str, content: dict[str, Any]) -> Path:
    """Puts `content` under the analysis's name; what other analyses wrote to the file stays.

    An `Estimate` becomes {"value", "low", "high"}; a number that is not finite becomes null.
    """
    path = out / FILE_NAME
    summary: dict[str, Any] = {}
    if path.exists():
        try:
            summary = json.loads(path.read_bytes())
        except ValueError as error:
            raise UserError(f"{path} is no JSON file: {error}") from None
        if not isinstance(summary, dict):
            raise UserError(f"{path} is no summary of analyses: move it away")
    summary[name] = _plain(content)
    write_atomic(path, strict_json(summary, indent=2))
    return path


def estimate_columns(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    """Three cells of a table: `name`, `name_low`, `name_high`; None where undefined."""
    names = name, f"{name}_low", f"{name}_high"
    if estimate is None:
        return dict.fromkeys(names)
    numbers = estimate.value, estimate.low, estimate.high
    return {key: finite(number) for key, number in zip(names, numbers, strict=True)}


def finite(number: float | None) -> float | None:
    """None for NaN and the infinities, which a table does not hold."""
    return None if number is None or not math.isfinite(number) else float(number)


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return {"value": value.value, "low": value.low, "high": value.high}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
