"""What an analysis found, in a few numbers: summary.json, and tables in Markdown."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.stats.bootstrap import Estimate
from analysis.tables import estimate, estimate_columns
from vineppo.run_dir.files import read_json, strict_json, write_atomic

FILE_NAME = "summary.json"
UNKNOWN = "–"


def write_summary(out: Path, name: str, content: dict[str, Any]) -> Path:
    """Puts `content` under the analysis's name; what other analyses wrote to the file stays.

    An `Estimate` becomes {"value", "low", "high"}; a number that is not finite becomes null.
    """
    path = out / FILE_NAME
    write_atomic(path, strict_json(read_summary(path) | {name: _plain(content)}, indent=2))
    return path


def read_summary(path: Path) -> dict[str, Any]:
    """What analyses wrote to the file; empty where there is none. Raises `UserError`."""
    return read_json(path) if path.exists() else {}


def nested(
    frame: pd.DataFrame, *by: str, label: Callable[[Any], str] = str, leave: Sequence[str] = ()
) -> dict[str, Any]:
    """The rows of a frame by one column within another: {"PPO": {"0.5": {"final": …}}}.

    `label` names a level's value. Columns of `leave` and empty cells are left out; an estimate's
    three columns are one entry.
    """
    content: dict[str, Any] = {}
    for row in frame.to_dict("records"):
        place = content
        for column in by:
            place = place.setdefault(label(row[column]), {})
        place |= row_content(row, (*by, *leave))
    return content


def row_content(row: Mapping[Any, Any], leave: Sequence[str] = ()) -> dict[str, Any]:
    """A row of a frame by column, as `nested` has it."""
    ends = {end for name in row for end in estimate_columns(name)[1:] if end in row}
    return {
        name: estimate(row, name) if f"{name}_low" in row else value
        for name, value in row.items()
        if name not in ends and name not in leave and not pd.isna(value)
    }


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; none of no rows."""
    if not rows:
        return []
    lines = [heads, ["---"] * len(heads), *(map(escaped, row) for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def escaped(text: str) -> str:
    """A cell of a Markdown table."""
    return text.replace("|", "\\|")


def number(value: Any, form: str = ".3f", unit: str = "") -> str:
    """`number(1234.5, ",.0f", " s")` is "1,234 s"; a dash for what is empty."""
    return UNKNOWN if pd.isna(value) else f"{value:{form}}{unit}"


def interval(estimate: Estimate | None, form: str = ".3f") -> str:
    """`interval(Estimate(0.5, 0.4, 0.6))` is "0.500 (0.400 to 0.600)"."""
    if estimate is None:
        return UNKNOWN
    if estimate.low is None or estimate.high is None:
        return number(estimate.value, form)
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return vars(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
