"""Tables of rows that are dataclasses, of analyses that are not yet tables of frames."""

import csv
import io
import math
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from analysis.stats.bootstrap import Estimate
from vineppo.errors import UserError
from vineppo.run_dir.files import named_errors, write_atomic

Row = TypeVar("Row")


def write_table(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Writes one line a row under the keys of the first; None is an empty cell.

    Numbers are written so that `read_table` gives the very same ones back.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_column, rows[0]))
    writer.writerows(row.values() for row in rows)
    write_atomic(path, buffer.getvalue().encode())


def read_table(path: Path, row_type: type[Row]) -> list[Row]:
    """The rows of a table as dataclasses; columns that are no field of `row_type` are left out.

    Its fields are `str`, `int` or `float`, or one of them `| None`. The column of a field with a
    default may be missing: of a table that is older than the field. Raises `UserError` naming the
    file, and the line and column where there is one: for a table that is missing, lacks a column,
    holds no row, or a cell that is no finite number where one is due.
    """
    with named_errors("read", path):
        content = path.read_bytes()
    try:
        reader = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        found = reader.fieldnames or []
        types = typing.get_type_hints(row_type)
        for name in [name for name in types if _column(name) not in found]:
            if not hasattr(row_type, name):
                raise UserError(f"{path} has no column {_column(name)}")
            del types[name]
        rows = [
            row_type(
                **{
                    name: _cell(line[_column(name)], kind, f"{path}, line {reader.line_num}", name)
                    for name, kind in types.items()
                }
            )
            for line in reader
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV file: {error}") from None
    if not rows:
        raise UserError(f"{path} holds no row")
    return rows


def _column(name: str) -> str:
    return name.replace("pass_at_1", "pass@1")


def _cell(text: str | None, kind: Any, place: str, name: str) -> Any:
    options = typing.get_args(kind) or (kind,)
    if text in (None, "") and type(None) in options:
        return None
    if options[0] is str and text is not None:
        return text
    try:
        number = options[0](text)
        if math.isfinite(number):
            return number
    except (TypeError, ValueError):
        pass
    wanted = {int: "a whole number", str: "a text"}.get(options[0], "a number")
    raise UserError(f"{place}: {_column(name)} must be {wanted}, got {text!r}")


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
