"""GSM8K and MATH, from the hub or from a local file of the same fields."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vineppo.config.schema import Task
from vineppo.config.schema.scalars import Name
from vineppo.errors import UserError
from vineppo.tasks.answers import boxed_contents, extract_hash
from vineppo.tasks.rows import Row, read_hub, read_rows, text_field, text_or_number_field
from vineppo.types import Problem, Split

_CALCULATOR_ANNOTATION = re.compile(r"<<[^<>\n]*>>")
# Two problems of the train set are published with an empty box. The answer of both is 0.
_EMPTY_BOX_OF_ZERO = (
    "For any integer $n>1$, the number of prime numbers greater than $n!+1$ and less than",
    "You are given a sequence of $58$ terms; each term has the form $P+n$ where $P$ stands for",
)
_SEVERAL_ANSWERS = re.compile(
    r"separated by (?:commas?|semicolons?)|find all possible|all (?:the )?possible values", re.I
)
_BARE_LIST = re.compile(r"-?[0-9]+(?:,-?[0-9]+)+")


@dataclass(frozen=True, kw_only=True)
class PublishedTask(Task):
    """A data set of the hub; a kind says how a row becomes a problem."""

    hub_path: Name
    hub_name: Name | None = None  # the subset; null where there is only one
    # The hub's names of the sets.
    hub_splits: ClassVar[Mapping[Split, str]] = {"train": "train", "test": "test"}

    @staticmethod
    def problem(row: Row, where: str, problem_id: str) -> Problem:
        """The problem of a row. Raises UserError, beginning with `where`, for a wrong field."""
        raise NotImplementedError

    def load(self, split: Split) -> list[Problem]:
        """Raises `UserError` when the set cannot be had or a row is not of its form."""
        path = self.train_path if split == "train" else self.test_path
        if path is not None:
            rows = read_rows(path)
        else:
            instead = f"a local file as task.{split}_path"
            rows = read_hub(self.hub_path, self.hub_name, self.hub_splits[split], instead)
        return [
            self.problem(row, where, f"{self.kind}/{split}/{index}")
            for index, (where, row) in enumerate(rows)
        ]


@dataclass(frozen=True, kw_only=True)
class Gsm8kTask(PublishedTask):
    """GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school word problems."""

    @staticmethod
    def problem(row: Row, where: str, problem_id: str) -> Problem:
        """The answer stands after "####"; the solution loses its <<…>> annotations.

        `{"question": "…", "answer": "She has 2*3=<<2*3=6>>6.\\n#### 6"}` gives the answer "6" and
        the solution "She has 2*3=6.\\n#### 6".
        """
        question = text_field(row, "question", where)
        worked = text_field(row, "answer", where)
        answer = extract_hash(worked)
        if answer is None:
            raise UserError(f"{where}: answer must end with '#### <number>', got {worked[-40:]!r}")
        return Problem(problem_id, question, answer, _CALCULATOR_ANNOTATION.sub("", worked))


@dataclass(frozen=True, kw_only=True)
class MathTask(PublishedTask):
    """MATH (Hendrycks et al. 2021, arXiv:2103.03874): competition problems, the answer in a box.

    The split follows PRM800K (Lightman et al. 2023, arXiv:2305.20050) and the VinePPO paper: 500
    test problems, drawn from the original 5,000, and all other 12,000 to train on.
    """

    @staticmethod
    def problem(row: Row, where: str, problem_id: str) -> Problem:
        """Without the field `answer`, as in the first release, the last box holds the answer.

        Where the question asks for several answers, those of all boxes are one list: PRM800K's
        field has the last alone. Raises UserError for a solution without a boxed answer: it would
        demonstrate a response that is graded 0.
        """
        question = text_field(row, "problem", where).strip()
        solution = text_field(row, "solution", where)
        if question.startswith(_EMPTY_BOX_OF_ZERO):
            row, solution = {**row, "answer": "0"}, solution.replace(r"\boxed{}", r"\boxed{0}")
        boxed = boxed_contents(solution)
        if not boxed or not boxed[-1]:
            raise UserError(
                f"{where}: solution must hold its answer in a \\boxed{{}}, got {solution[-40:]!r}"
            )
        answer = text_or_number_field(row, "answer", where) if "answer" in row else boxed[-1]
        if _SEVERAL_ANSWERS.search(question):
            if answer == boxed[-1]:
                answer = ", ".join(dict.fromkeys(boxed))
            elif _BARE_LIST.fullmatch(answer):
                answer = answer.replace(",", ", ")
        return Problem(problem_id, question, answer, solution)
