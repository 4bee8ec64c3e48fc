"""Rows of a file (JSONL, one JSON list, Parquet) or of the hub; errors name file and row."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any

from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Name
from vineppo.errors import UserError
from vineppo.types import Problem, Split

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class JsonlTask(Task):
    """A user's own files of rows (.jsonl, .json, .parquet); `*_field` name the keys of a row.

    "a.b" is the key b of the table a, where no key is called that itself. `train_path` may be null
    for `vineppo evaluate --task`.
    """

    test_path: Name
    question_field: Name = "question"
    answer_field: Name = "answer"
    solution_field: Name | None = None
    id_field: Name | None = None  # null: the row's number

    def load(self, split: Split) -> list[Problem]:
        """A prompt may be a conversation (`prompt_field`).

        A reward function gets the whole row, with the prompt and the true answer as `prompt` and
        `ground_truth`, and the answer may then be anything. Without `id_field`, the ids count the
        rows from 0: "jsonl/train/0". With `id_field="name"`, the row `{"name": "euler-7", …}` has
        the id "jsonl/train/euler-7". Raises `UserError` for a row that does not fit, an id that
        another row of the file has, and when no file is named.
        """
        path = self.train_path if split == "train" else self.test_path
        if path is None:
            raise UserError(
                f"task.{split}_path must name a file for task.kind 'jsonl' (null is for "
                "`vineppo evaluate --task`, which reads the test set alone), got null"
            )
        problems_P: list[Problem] = []
        where_of_name: dict[str, str] = {}
        key, solution_key = self.id_field, self.solution_field
        for index, (where, row) in enumerate(read_rows(path)):
            name = str(index) if key is None else text_or_number_field(row, key, where)
            if (first := where_of_name.setdefault(name, where)) != where:
                raise UserError(f"{where}: {key} {name!r} must be unique, also at {first}")
            question, context = prompt_field(row, self.question_field, where)
            problem = Problem(
                id=f"jsonl/{split}/{name}",
                question=question,
                answer=self._answer(row, where),
                solution=None if solution_key is None else text_field(row, solution_key, where),
                context=context,
                row=None if self.grading.reward_path is None else self._named_row(row, where),
            )
            problems_P.append(problem)
        return problems_P

    def _answer(self, row: Row, where: str) -> str:
        """A reward function may be given any answer; as text it is then JSON."""
        truth = _present(row, self.answer_field, where)
        if self.grading.reward_path is not None and isinstance(truth, dict | list):
            return json.dumps(truth, default=str)
        return text_or_number_field(row, self.answer_field, where)

    def _named_row(self, row: Row, where: str) -> Row:
        truth = _present(row, self.answer_field, where)
        return {"ground_truth": truth, **row, "prompt": _present(row, self.question_field, where)}


def read_rows(path: str) -> Iterator[tuple[str, Row]]:
    """(where, row) for every row of a JSONL file, of a .parquet, or of the list in a .json.

    Blank lines of JSONL are skipped. `where` is the beginning of an error message, with rows
    counted from 1: `"data.jsonl: row 17"`. Raises UserError for a file that cannot be
    read, is not UTF-8 or is empty, and for a row that is not a JSON object.
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


def _parquet_rows(content: bytes, path: str) -> Iterator[tuple[str, object]]:
    from pyarrow import ArrowException, BufferReader
    from pyarrow.parquet import read_table

    try:
        rows = read_table(BufferReader(content)).to_pylist()
    except ArrowException as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path}: must be a Parquet file (its name ends so), {reason}") from error
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


def prompt_field(row: Row, field: str, where: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The question at `field`, and (role, content) of the messages before it.

    A string is the question. Of a conversation, in the form that chat templates take, it is the
    last message, which must be the user's: `[{"role": "user", "content": "1+1?"}]` gives
    ("1+1?", ()).
    """
    value = _present(row, field, where)
    if not isinstance(value, list):
        return text_field(row, field, where), ()
    messages = []
    for number, message in enumerate(value):
        at = f"{where}: {field}[{number}]"
        if not isinstance(message, dict):
            raise UserError(f"{at} must be a message with role and content, got {message!r}")
        messages.append((text_field(message, "role", at), text_field(message, "content", at)))
    roles = [role for role, _ in messages]
    if roles[-1:] != ["user"]:
        raise UserError(f"{where}: {field} must end with a message of the user, got roles {roles}")
    return messages[-1][1], tuple(messages[:-1])


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
    value: Any = row
    for key in [field] if field in row else field.split("."):
        if not isinstance(value, dict) or key not in value:
            raise UserError(f"{where}: must have the field {field!r}, got {sorted(row)}")
        value = value[key]
    return value


def _describe(value: object) -> str:
    return "null" if value is None else type(value).__name__
