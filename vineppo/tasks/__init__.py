"""Tasks: problems with checkable answers, how they are shown to a model, and how it is graded.

This package stays free of heavy imports (no torch, no transformers) until a task is loaded: every
grading worker imports it, and starts in the time that math-verify needs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vineppo.errors import UserError
from vineppo.types import Problem, Split

if TYPE_CHECKING:
    from vineppo.config.schema import Task


@dataclass(frozen=True)
class TaskData:
    """The problems to learn from and to evaluate on; ids are unique over both.

    The ids stay the same from run to run: `data.train_P[17].id == "gsm8k/train/17"`.
    """

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
    """The problems of one set; the test set is cut to its first `num_test_problems`.

    Raises UserError for data that cannot be read, for what is no problem and for an empty set.
    """
    problems_P = tuple(task.load(split))
    if not problems_P:
        raise UserError(f"task {task.kind}: the {split} set is empty")
    for index, problem in enumerate(problems_P):
        if not isinstance(problem, Problem):
            raise UserError(f"{task.kind}: load must give problems, got {problem!r} at {index}")
    return problems_P if split == "train" else problems_P[: task.num_test_problems]
