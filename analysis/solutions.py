"""Worked solutions whose first wrong step others have marked, from local files.

A file is JSONL, a JSON list or Parquet, of one of these forms, which the keys of each row tell:

    question, steps, first_wrong[, answer]     ours; the step from 0, null: none is wrong
    input, steps, mistake_index, target        BIG-Bench-Mistake (arXiv:2311.08516), from 0 or null
    problem, steps, label                      ProcessBench (arXiv:2412.06559), from 0, −1: none
    modified_question, modified_process, error_steps, original_…
                                               PRMBench (arXiv:2501.03124), from 1; the original
                                               process, which several rows share, is a right
                                               solution beside them
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.tasks.rows import read_rows


@dataclass(frozen=True)
class Solution:
    """Steps of text; `first_wrong` counts them from 0, None: all are right.

    `answer` is the true one, "" where the data do not say it. Solutions of one question, or made
    from one, have the same `problem`.
    """

    id: str
    problem: str
    question: str
    steps_S: tuple[str, ...]
    first_wrong: int | None
    answer: str = ""


def read_solutions(path: Path) -> list[Solution]:
    """Raises `UserError` naming the row for one of none of the forms."""
    found: list[Solution] = []
    problems: dict[str, str] = {}
    originals: set[tuple[str, tuple[str, ...]]] = set()
    for number, (where, row) in enumerate(read_rows(str(path))):
        for name, fields in _forms(row, where):
            question = str(row.get("original_question", fields[0]))
            problem = problems.setdefault(question, str(number))
            one = _checked(f"{number}{name}", problem, *fields, where=where)
            own = (one.question, one.steps_S)
            if not name or own not in originals:
                found.append(one)
            if name:
                originals.add(own)
    return found


def _forms(row: Mapping[str, Any], where: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    answer = row.get("answer", "")
    if "first_wrong" in row:
        yield "", (row.get("question"), row.get("steps"), row["first_wrong"], answer)
    elif "mistake_index" in row:
        target = row.get("target", "")
        yield "", (row.get("input"), row.get("steps"), row["mistake_index"], target)
    elif "modified_process" in row:
        wrong = min(row.get("error_steps") or [0]) - 1
        yield "", (row.get("modified_question"), row["modified_process"], _none_below(wrong), "")
        if row.get("original_process"):
            yield " original", (row.get("original_question"), row["original_process"], None, "")
    elif "label" in row:
        yield "", (row.get("problem"), row.get("steps"), _none_below(row["label"]), "")
    else:
        raise UserError(
            f"{where}: must have first_wrong, mistake_index, modified_process or label, got "
            f"{', '.join(sorted(row))}"
        )


def _none_below(step: Any) -> Any:
    return None if isinstance(step, int) and step < 0 else step


def _checked(
    name: str, problem: str, question: Any, steps: Any, first_wrong: Any, answer: Any, *, where: str
) -> Solution:
    if not isinstance(question, str) or not question.strip():
        raise UserError(f"{where}: the question must be a text, got {question!r}")
    is_steps = isinstance(steps, list) and all(isinstance(step, str) for step in steps)
    if not is_steps or not any(steps):  # BIG-Bench-Mistake has an empty step
        raise UserError(f"{where}: the steps must be a list of texts, got {steps!r}")
    is_place = isinstance(first_wrong, int) and not isinstance(first_wrong, bool)
    if first_wrong is not None and not (is_place and 0 <= first_wrong < len(steps)):
        raise UserError(
            f"{where}: the first wrong step must be null or one of {len(steps)}, got {first_wrong}"
        )
    return Solution(name, problem, question, tuple(steps), first_wrong, str(answer))
