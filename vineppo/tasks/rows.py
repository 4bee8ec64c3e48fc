"""Rows of a file, JSONL or one JSON list, or of the hub, with errors that name file and row."""

import json
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from vineppo.config.schema import PublishedTaskConfig
from vineppo.errors import UserError
from vineppo.types import Split

Row = dict[str, Any]


def read_rows(path: str) -> Iterator[tuple[str, Row]]:
    """(where, row) for every row of a JSONL file, or of the list in a file named .json.

    Blank lines of JSONL are skipped. `where` is the beginning of an error message, with rows
    counted from 1: `"data.jsonl: row 17"`. Raises UserError for a file that cannot be
    read, is not UTF-8 or is empty, and for a row that is not a JSON object.
    """
    is_empty = True
    for row_number, row in _read_list(path) if path.endswith(".json") else _read_lines(path):
        is_empty = False
        where = f"{path}: row {row_number}"
        if not isinstance(row, dict):
            raise UserError(f"{where}: must be a JSON object, got {type(row).__name__}")
        yield where, row
    if is_empty:
        raise UserError(f"{path}: must have at least one row, got an empty file")


def _read_lines(path: str) -> Iterator[tuple[int, object]]:
    # Bytes, cut at b"\n" alone: a JSON string may hold U+2028, which str.splitlines cuts at.
    for row_number, line in enumerate(_read_bytes(path).split(b"\n"), start=1):
        if line.strip():
            yield row_number, _parse(line, f"{path}: row {row_number}", "a JSON object")


def _read_list(path: str) -> Iterator[tuple[int, object]]:
    expected = "a JSON list (its name ends in .json)"
    rows = _parse(_read_bytes(path), path, expected)
    if not isinstance(rows, list):
        raise UserError(f"{path}: must be {expected}, got {type(rows).__name__}")
    yield from enumerate(rows, start=1)


def _read_bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error


def _parse(content: bytes, where: str, expected: str) -> object:
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: must be UTF-8, got byte {content[error.start]:#04x}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: must be {expected}, got invalid JSON ({error})") from error


def read_hub(
    config: PublishedTaskConfig, split: Split, hub_split: str
) -> Iterator[tuple[str, Row]]:
    """(where, row) for every row of what the hub calls `hub_split`; UserError where it fails."""
    from datasets import load_dataset  # a second's import that local files do not need

    subset = "" if config.hub_name is None else f"/{config.hub_name}"
    source = f"{config.hub_path}{subset} [{hub_split}]"
    try:
        dataset = load_dataset(config.hub_path, config.hub_name, split=hub_split)
    # The hub's failures have no common type: connection, not found, gated, offline, bad subset.
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"task.hub_path {source} cannot be loaded ({type(error).__name__}: {reason}); "
            f"give a local file as task.{split}_path"
        ) from error
    return ((f"{source}: row {number}", row) for number, row in enumerate(dataset, start=1))


def text_field(row: Row, field: str, where: str) -> str:
    """The nonempty string at `field`; UserError when it is missing, of another type or blank.

    `text_field({"q": "1+1?"}, "q", "data.jsonl: row 1") == "1+1?"`.
    """
    value = _present(row, field, where)
    if not isinstance(value, str):
        raise UserError(f"{where}: {field} must be a string, got {_describe(value)}")
    if not value.strip():
        raise UserError(f"{where}: {field} must not be blank")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:  # "\ud800" is legal JSON and no tokenizer takes it
        raise UserError(f"{where}: {field} must be valid Unicode, got a lone surrogate") from error
    return value


def text_or_number_field(row: Row, field: str, where: str) -> str:
    """As `text_field`, stripped; a finite number becomes its plain decimal notation.

    `{"answer": 1e3}` gives "1000.0" and `{"answer": 7}` gives "7".
    """
    value = _present(row, field, where)
    if isinstance(value, bool) or not isinstance(value, int | float):
        if not isinstance(value, str):
            raise UserError(f"{where}: {field} must be a string or number, got {_describe(value)}")
        return text_field(row, field, where).strip()
    if not isfinite(value):
        raise UserError(f"{where}: {field} must be finite, got {value}")
    return str(value) if isinstance(value, int) else f"{Decimal(repr(value)):f}"


def _present(row: Row, field: str, where: str) -> object:
    if field not in row:
        raise UserError(f"{where}: must have the field {field!r}, got {sorted(row)}")
    return row[field]


def _describe(value: object) -> str:
    return "null" if value is None else type(value).__name__
