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
    """The problems of one set, at least one; the test set's first `num_test_problems` alone."""
    problems_P = tuple(task.load(split))
    if not problems_P:
        raise UserError(f"task {task.kind}: the {split} set is empty")
    for index, problem in enumerate(problems_P):
        if not isinstance(problem, Problem):
            raise UserError(f"{task.kind}: load must give problems, got {problem!r} at {index}")
    return problems_P if split == "train" else problems_P[: task.num_test_problems]
