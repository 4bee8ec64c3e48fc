"""Problems that are rows: of a file or of the hub, also in the forms of verl, TRL and OpenRLHF."""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Name
from vineppo.errors import UserError
from vineppo.tasks.rows import (
    Row,
    field_value,
    read_hub,
    read_rows,
    text_field,
    text_or_number_field,
)
from vineppo.types import Problem, Split

# Minerva's true answers: "4.5e33". (The e of a response may be Euler's.)
_SCIENTIFIC = re.compile(r"^([1-9](?:\.[0-9]+)?)e\+?(-?[0-9]{1,3})$")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class OtherTest:
    """The test set, where it is another data set of the hub than the train set.

    `task.test_path` then names a local file of these fields.
    """

    hub_path: Name
    hub_name: Name | None = None
    test_split: Name = "test"
    question_field: Name = "question"
    answer_field: Name = "answer"


@dataclass(frozen=True, kw_only=True)
class JsonlTask(Task):
    """Rows of files (.jsonl, .json, .parquet) or of the hub; `*_field` name the keys of a row.

    "a.b" is the key b of the table a, where no key is called that itself. A file takes the place of
    the hub's set. The train set may be missing for `vineppo evaluate --task`.
    """

    hub_path: Name | None = None
    hub_name: Name | None = None  # the subset; null where there is only one
    # As `datasets` names them, slices included: "train[:-500]".
    train_split: Name = "train"
    test_split: Name = "test"
    other_test: OtherTest | None = None
    question_field: Name = "question"
    answer_field: Name = "answer"
    solution_field: Name | None = None
    id_field: Name | None = None  # null: the row's number
    no_answer: Literal["refuse", "leave_out"] = "refuse"  # a row whose answer is blank or null

    def load(self, split: Split) -> list[Problem]:
        """Raises `UserError` if nothing names the set, and for a row that does not fit.

        A reward function gets the whole row, with the prompt and the true answer as `prompt` and
        `ground_truth`, and the answer may then be anything. With `id_field="name"`, the row
        `{"name": "euler-7", …}` has the id "jsonl/train/euler-7".
        """
        fields = self if split == "train" or self.other_test is None else self.other_test
        problems_P: list[Problem] = []
        where_of_name: dict[str, str] = {}
        key = self.id_field if fields is self else None
        num_left_out = 0
        for index, (where, row) in enumerate(self._rows(split, fields)):
            truth = field_value(row, fields.answer_field, where)
            if self.no_answer == "leave_out" and (truth is None or str(truth).strip() == ""):
                num_left_out += 1
                continue
            name = str(index) if key is None else text_or_number_field(row, key, where)
            if (first := where_of_name.setdefault(name, where)) != where:
                raise UserError(f"{where}: {key} {name!r} must be unique, also at {first}")
            identity = f"jsonl/{split}/{name}"
            problems_P.append(self._problem(row, where, identity, truth, fields))
        if num_left_out:
            _logger.warning(
                "task jsonl: %d %s rows without an answer left out", num_left_out, split
            )
        return problems_P

    def _rows(self, split: Split, fields: "JsonlTask | OtherTest") -> Iterator[tuple[str, Row]]:
        path = self.train_path if split == "train" else self.test_path
        if path is not None:
            return read_rows(path)
        if fields.hub_path is None:
            raise UserError(
                f"task.{split}_path must name a file for task.kind 'jsonl' (null is for "
                "`vineppo evaluate --task`, which reads the test set alone), got null"
            )
        hub_split = self.train_split if split == "train" else fields.test_split
        instead = f"a local file as task.{split}_path"
        return read_hub(fields.hub_path, fields.hub_name, hub_split, instead)

    def _problem(
        self, row: Row, where: str, identity: str, truth: object, fields: "JsonlTask | OtherTest"
    ) -> Problem:
        is_user = self.grading.reward_path is not None
        question, context = prompt_field(row, fields.question_field, where)
        if is_user and isinstance(truth, dict | list):
            answer = json.dumps(truth, default=str)
        else:
            answer = text_or_number_field(row, fields.answer_field, where)
            answer = _SCIENTIFIC.sub(r"\1\\times 10^{\2}", answer)
        key = self.solution_field if fields is self else None
        solution = None if key is None else text_field(row, key, where)
        prompt = field_value(row, fields.question_field, where)
        named = {"ground_truth": truth, **row, "prompt": prompt} if is_user else None
        return Problem(identity, question, answer, solution, context, named)


def prompt_field(row: Row, field: str, where: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The question at `field`, and (role, content) of the messages before it.

    A string is the question. In a conversation, in the form that chat templates take, the question
    is the last message, which must be the user's: `[{"role": "user", "content": "1+1?"}]` gives
    ("1+1?", ()).
    """
    value = field_value(row, field, where)
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
