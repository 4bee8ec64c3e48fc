"""A user's own problems: rows of a file, also in the forms of verl, TRL and OpenRLHF."""

import json
from dataclasses import dataclass

from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Name
from vineppo.errors import UserError
from vineppo.tasks.rows import Row, field_value, read_rows, text_field, text_or_number_field
from vineppo.types import Problem, Split


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
        """Raises `UserError` if no file is named, and for a row that does not fit.

        A reward function gets the whole row, with the prompt and the true answer as `prompt` and
        `ground_truth`, and the answer may then be anything. With `id_field="name"`, the row
        `{"name": "euler-7", …}` has the id "jsonl/train/euler-7".
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
        is_user = self.grading.reward_path is not None
        for index, (where, row) in enumerate(read_rows(path)):
            name = str(index) if key is None else text_or_number_field(row, key, where)
            if (first := where_of_name.setdefault(name, where)) != where:
                raise UserError(f"{where}: {key} {name!r} must be unique, also at {first}")
            question, context = prompt_field(row, self.question_field, where)
            truth = field_value(row, self.answer_field, where)
            if is_user and isinstance(truth, dict | list):
                answer = json.dumps(truth, default=str)
            else:
                answer = text_or_number_field(row, self.answer_field, where)
            solution = None if solution_key is None else text_field(row, solution_key, where)
            prompt = field_value(row, self.question_field, where)
            named = {"ground_truth": truth, **row, "prompt": prompt} if is_user else None
            identity = f"jsonl/{split}/{name}"
            problems_P.append(Problem(identity, question, answer, solution, context, named))
        return problems_P


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
