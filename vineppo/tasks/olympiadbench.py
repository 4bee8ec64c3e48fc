"""OlympiadBench (He et al. 2024, arXiv:2402.14008): olympiad problems with answers; for evaluation.

Meant for its English mathematics in text with a final answer (`OE_TO_maths_en_COMP`). Those answers
are exact: `error`, a tolerance, is set in one row of 675, whose question itself asks for one
decimal place, and `unit` in eight, where it is that of the question's own numbers; neither is
used. One answer (id 1965) is prose, whose grading means little. In the physics subsets tolerance
and unit matter, and exact grading would call right answers wrong.
"""

from vineppo.config.schema import OlympiadBenchTaskConfig
from vineppo.errors import UserError
from vineppo.tasks.equivalence import list_items
from vineppo.tasks.hub import load_published
from vineppo.tasks.jsonl_file import Row, text_field
from vineppo.types import Problem, Split


def load(config: OlympiadBenchTaskConfig, split: Split) -> list[Problem]:
    """As `load_published`; raises UserError also for a row that is not of OlympiadBench's form."""
    hub_splits: dict[Split, str] = {"test": "train"}  # the hub calls its one set "train"
    return load_published(config, split, hub_splits, problem_of_row)


def problem_of_row(row: Row, where: str, problem_id: str) -> Problem:
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
