"""Rows of a file (JSONL, one JSON list, Parquet) or of the hub; errors name file and row."""

import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from vineppo.errors import UserError

Row = dict[str, Any]


def read_rows(path: str) -> Iterator[tuple[str, Row]]:
    """(where, row) for every row of a JSONL file, of a .parquet, or of the list in a .json.

    `where` begins an error message, with rows counted from 1: "data.jsonl: row 17". Raises
    UserError for a file that cannot be read or is empty, and for a row that is no JSON object.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    is_empty = True
    read = {".json": _list_rows, ".parquet": _parquet_rows}.get(Path(path).suffix, _lines)
    for where, row in read(content.removeprefix(b"\xef\xbb\xbf"), path):
        is_empty = False
        if not isinstance(row, dict):
            raise UserError(f"{where}: must be a JSON object, got {type(row).__name__}")
        yield where, row
    if is_empty:
        raise UserError(f"{path}: must have at least one row, got an empty file")


def _lines(content: bytes, path: str) -> Iterator[tuple[str, object]]:
    # Bytes, cut at b"\n" alone: a JSON string may hold U+2028, which str.splitlines cuts at.
    for where, line in _numbered(path, content.split(b"\n")):
        if line.strip():
            yield where, _parse(line, where, "a JSON object")


def _list_rows(content: bytes, path: str) -> Iterator[tuple[str, object]]:
    expected = "a JSON list (its name ends in .json)"
    rows = _parse(content, path, expected)
    if not isinstance(rows, list):
        raise UserError(f"{path}: must be {expected}, got {type(rows).__name__}")
    return _numbered(path, rows)


def _parquet_rows(content: bytes, path: str) -> Iterator[tuple[str, object]]:
    from pyarrow import ArrowException, BufferReader
    from pyarrow.parquet import read_table

    try:
        rows = read_table(BufferReader(content)).to_pylist()
    except ArrowException as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: must be a Parquet file (its name ends so), {reason}") from error
    return _numbered(path, rows)


def _numbered(source: str, rows: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"{source}: row {number}", row) for number, row in enumerate(rows, start=1))


def _parse(content: bytes, where: str, expected: str) -> object:
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: must be UTF-8, got byte {content[error.start]:#04x}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: must be {expected}, got invalid JSON ({error})") from error


def read_hub(path: str, name: str | None, split: str, instead: str) -> Iterator[tuple[str, Row]]:
    """As `read_rows`, of a split of the hub's data set `path` and its subset `name`."""
    from datasets import load_dataset  # a second's import that local files do not need

    subset = "" if name is None else f"/{name}"
    source = f"{path}{subset} [{split}]"
    try:
        dataset = load_dataset(path, name, split=split)
    # The hub's failures have no common type: connection, not found, gated, offline, bad subset.
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"task.hub_path {source} cannot be loaded ({type(error).__name__}: {reason}); "
            f"give {instead}"
        ) from error
    return _numbered(source, dataset)


def text_field(row: Row, field: str, where: str) -> str:
    """The string at `field`; UserError when it is missing, of another type or blank."""
    value = field_value(row, field, where)
    if not isinstance(value, str):
        raise UserError(f"{where}: {field} must be a string, got {_type(value)}")
    if not value.strip():
        raise UserError(f"{where}: {field} must not be blank")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:  # "\ud800" is legal JSON and no tokenizer takes it
        raise UserError(f"{where}: {field} must be valid Unicode, got a lone surrogate") from error
    return value


def text_or_number_field(row: Row, field: str, where: str) -> str:
    """As `text_field`, stripped; a finite number in decimal notation: 1e3 gives "1000.0"."""
    value = field_value(row, field, where)
    if isinstance(value, str):
        return text_field(row, field, where).strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{where}: {field} must be a string or number, got {_type(value)}")
    if not isfinite(value):
        raise UserError(f"{where}: {field} must be finite, got {value}")
    return f"{Decimal(repr(value)):f}"


def field_value(row: Row, field: str, where: str) -> Any:
    """The value at `field`; "a.b" is the key b of the table a, if no key has that name."""
    value: Any = row
    for key in [field] if field in row else field.split("."):
        if not isinstance(value, dict) or key not in value:
            raise UserError(f"{where}: must have the field {field!r}, got {sorted(row)}")
        value = value[key]
    return value


def _type(value: object) -> str:
    return "null" if value is None else type(value).__name__
