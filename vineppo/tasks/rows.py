"""Rows of a file, JSONL or one JSON list, or of the hub, with errors that name file and row.

A user's own problems are such rows, or what the user's code makes.
"""

import json
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from vineppo.config.schema import JsonlTaskConfig, PythonTaskConfig
from vineppo.errors import UserError
from vineppo.own_code import OwnFunction
from vineppo.types import Problem, Split

Row = dict[str, Any]


def load(config: JsonlTaskConfig | PythonTaskConfig, split: Split) -> list[Problem]:
    """A user's own: those of a JSONL file, or of a file with `load(options, split)`.

    Without `id_field`, the ids count the rows from 0: "jsonl/train/0". With `id_field="name"`, the
    row `{"name": "euler-7", …}` has the id "jsonl/train/euler-7".
    Raises UserError for a row that does not fit, an id that another row of the file has, when
    no file is named, for a file that cannot be run, and for what is no problem.
    """
    if config.kind == "python":
        made = list(OwnFunction(config.path, "load")(config.options, split))
        for index, problem in enumerate(made):
            if not isinstance(problem, Problem):
                raise UserError(
                    f"{config.path}: load must return problems, got {problem!r} at row {index}"
                )
        return made
    path = config.train_path if split == "train" else config.test_path
    if path is None:
        raise UserError(
            f"task.{split}_path must name a file for task.kind 'jsonl' (null is for "
            "`vineppo evaluate --task`, which reads the test set alone), got null"
        )
    problems_P: list[Problem] = []
    where_of_name: dict[str, str] = {}
    key, solution_key = config.id_field, config.solution_field
    for index, (where, row) in enumerate(read_rows(path)):
        name = str(index) if key is None else text_or_number_field(row, key, where)
        if (first := where_of_name.setdefault(name, where)) != where:
            raise UserError(f"{where}: {key} {name!r} must be unique, also at {first}")
        problem = Problem(
            id=f"jsonl/{split}/{name}",
            question=text_field(row, config.question_field, where),
            answer=text_or_number_field(row, config.answer_field, where),
            solution=None if solution_key is None else text_field(row, solution_key, where),
        )
        problems_P.append(problem)
    return problems_P


def read_rows(path: str) -> Iterator[tuple[str, Row]]:
    """(where, row) for every row of a JSONL file, or of the list in a file named .json.

    Blank lines of JSONL are skipped. `where` is the beginning of an error message, with rows
    counted from 1: `"data.jsonl: row 17"`. Raises UserError for a file that cannot be
    read, is not UTF-8 or is empty, and for a row that is not a JSON object.
    """
    try:
        content = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    is_empty = True
    for where, row in (
        _list_rows(content, path) if path.endswith(".json") else _lines(content, path)
    ):
        is_empty = False
        if not isinstance(row, dict):
            raise UserError(f"{where}: must be a JSON object, got {type(row).__name__}")
        yield where, row
    if is_empty:
        raise UserError(f"{path}: must have at least one row, got an empty file")


def _lines(content: bytes, path: str) -> Iterator[tuple[str, object]]:
    # Bytes, cut at b"\n" alone: a JSON string may hold U+2028, which str.splitlines cuts at.
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            where = f"{path}: row {number}"
            yield where, _parse(line, where, "a JSON object")


def _list_rows(content: bytes, path: str) -> Iterator[tuple[str, object]]:
    expected = "a JSON list (its name ends in .json)"
    rows = _parse(content, path, expected)
    if not isinstance(rows, list):
        raise UserError(f"{path}: must be {expected}, got {type(rows).__name__}")
    yield from ((f"{path}: row {number}", row) for number, row in enumerate(rows, start=1))


def _parse(content: bytes, where: str, expected: str) -> object:
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: must be UTF-8, got byte {content[error.start]:#04x}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: must be {expected}, got invalid JSON ({error})") from error


def read_hub(
    path: str, name: str | None, split: str, key: str, instead: str
) -> Iterator[tuple[str, Row]]:
    """(where, row) for every row of a split of the hub's data set `path`, of its subset `name`.

    Raises UserError where it fails, naming the config's `key` and what may be given `instead`.
    """
    from datasets import load_dataset  # a second's import that local files do not need

    subset = "" if name is None else f"/{name}"
    source = f"{path}{subset} [{split}]"
    try:
        dataset = load_dataset(path, name, split=split)
    # The hub's failures have no common type: connection, not found, gated, offline, bad subset.
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"{key} {source} cannot be loaded ({type(error).__name__}: {reason}); give {instead}"
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
    if isinstance(value, str):
        return text_field(row, field, where).strip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{where}: {field} must be a string or number, got {_describe(value)}")
    if not isfinite(value):
        raise UserError(f"{where}: {field} must be finite, got {value}")
    return str(value) if isinstance(value, int) else f"{Decimal(repr(value)):f}"


def _present(row: Row, field: str, where: str) -> object:
    if field not in row:
        raise UserError(f"{where}: must have the field {field!r}, got {sorted(row)}")
    return row[field]


def _describe(value: object) -> str:
    return "null" if value is None else type(value).__name__
