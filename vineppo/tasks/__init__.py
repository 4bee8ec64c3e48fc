"""Tasks: problems with checkable answers, how they are shown to a model, and how it is graded.

This package stays free of heavy imports (no torch, no transformers) until a task is loaded: every
grading worker imports it, and starts in the time that math-verify needs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vineppo.errors import UserError
from vineppo.types import SAME_AS, Problem, Split, question_of

if TYPE_CHECKING:
    from vineppo.config.schema import Task


@dataclass(frozen=True)
class TaskData:
    """Both sets; ids ("gsm8k/train/17") are unique over both and the same from run to run."""

    train_P: tuple[Problem, ...]
    test_P: tuple[Problem, ...]


def load_task(task: Task) -> TaskData:
    """Both sets of a task, each as by `load_split`."""
    data = TaskData(train_P=load_split(task, "train"), test_P=load_split(task, "test"))
    (most_common, count), *_ = Counter(p.id for p in (*data.train_P, *data.test_P)).most_common(1)
    if count > 1:
        raise UserError(f"task {task.kind}: {count} problems have the id {most_common}")
    return data


def load_split(task: Task, split: Split) -> tuple[Problem, ...]:
    """The problems of one set, at least one; the test set's first `num_test_problems` alone.

    The id of a repeated question, answer included, names its first problem (`question_of`).
    """
    problems_P = tuple(task.load(split))
    if not problems_P:
        raise UserError(f"task {task.kind}: the {split} set is empty")
    for index, problem in enumerate(problems_P):
        if not isinstance(problem, Problem):
            raise UserError(f"{task.kind}: load must give problems, got {problem!r} at {index}")
    problems_P = problems_P if split == "train" else problems_P[: task.num_test_problems]
    firsts: dict[object, str] = {}
    return tuple(
        problem if first == problem.id else replace(problem, id=f"{problem.id}{SAME_AS}{first}")
        for problem in problems_P
        for first in [firsts.setdefault(_asked(problem), problem.id)]
    )


def sizes(data: TaskData) -> str:
    """One line: the problems of both sets, how many differ, and how many stand in both."""
    of_sets = [
        f"{len(of_set):,} {name} problems, {len({question_of(p.id) for p in of_set}):,} distinct"
        for name, of_set in (("train", data.train_P), ("test", data.test_P))
    ]
    train, test = ({_asked(p) for p in of_set} for of_set in (data.train_P, data.test_P))
    return f"{'; '.join(of_sets)}; {len(train & test):,} in both sets"


def _asked(problem: Problem) -> tuple[object, ...]:
    return problem.context, problem.question.strip(), problem.answer
