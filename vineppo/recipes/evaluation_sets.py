"""SVAMP and OlympiadBench, two published data sets to evaluate on.

SVAMP (Patel et al. 2021, arXiv:2103.07191): simple word problems, varied. The published figures are
over all 1,000 problems. The hub's copy has them in two sets of 700 and 300, which are joined; the
authors' SVAMP.json is one list.

OlympiadBench (He et al. 2024, arXiv:2402.14008): olympiad problems with answers, here its English
mathematics in text with a final answer (`OE_TO_maths_en_COMP`). Those answers are exact. One row of
675 sets `error`, a tolerance, and its question asks for one decimal place. Eight rows set `unit`,
the unit of the question's own numbers. Neither field is used. The answer of id 1965 is prose; its
grade means little. In the physics subsets tolerance and unit matter: exact grading would call right
answers wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vineppo.errors import UserError
from vineppo.tasks.answers import list_items
from vineppo.tasks.published import PublishedTask
from vineppo.tasks.rows import Row, text_field, text_or_number_field
from vineppo.types import Problem, Split


def svamp_problem(row: Row, where: str, problem_id: str) -> Problem:
    """Body and question with a blank between them, as published, also where the body ends amid a
    sentence; the answers are whole numbers written as 51.0.

    `{"Body": "He had 3 cats", "Question": "How many pets?", "Answer": 3.0}` asks "He had 3 cats How
    many pets?" and has the answer "3".
    """
    body = text_field(row, "Body", where).strip()
    question = text_field(row, "Question", where).strip()
    answer = text_or_number_field(row, "Answer", where).removesuffix(".0")
    return Problem(problem_id, f"{body} {question}", answer)


def olympiadbench_problem(row: Row, where: str, problem_id: str) -> Problem:
    """A row's problem; several answers become the list "69, 84", which any order of them matches.

    `{"question": "…", "final_answer": ["$69$,$84$"], "is_multiple_answer": true, "context": null}`.
    Raises UserError, beginning with `where`, for a missing field and for other than one text in
    `final_answer`.
    """
    question = text_field(row, "question", where)
    if row.get("context"):
        question = f"{text_field(row, 'context', where)}\n{question}"
    texts = row.get("final_answer")
    if not isinstance(texts, list) or len(texts) != 1:
        raise UserError(f"{where}: final_answer must be a list of one text, got {texts!r}")
    answer = text_field({"final_answer": texts[0]}, "final_answer", where)
    # The data's own marks around a formula and behind a sentence are no part of the answer.
    answer = answer.replace("$", "").strip().removesuffix(".")
    if row.get("is_multiple_answer"):
        answer = ", ".join(item.strip() for item in list_items(answer))
    return Problem(problem_id, question, answer)


@dataclass(frozen=True, kw_only=True)
class EvaluationSet(PublishedTask):
    """A data set that the hub has no train set of."""

    def load(self, split: Split) -> list[Problem]:
        if split == "train" and self.train_path is None:
            raise UserError(
                f"task.train_path must name a file for task.kind {self.kind!r}, which has no "
                "train set on the hub (`vineppo evaluate --task` needs none), got null"
            )
        return super().load(split)


@dataclass(frozen=True, kw_only=True)
class SvampTask(EvaluationSet):
    """Rows as `svamp_problem` reads them; there is no train set."""

    problem = staticmethod(svamp_problem)
    hub_splits: ClassVar[Mapping[Split, str]] = {"test": "train+test"}


@dataclass(frozen=True, kw_only=True)
class OlympiadBenchTask(EvaluationSet):
    """Rows as `olympiadbench_problem` reads them; there is no train set, and one on the hub."""

    problem = staticmethod(olympiadbench_problem)
    hub_splits: ClassVar[Mapping[Split, str]] = {"test": "train"}
