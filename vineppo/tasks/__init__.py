"""Tasks: problems with checkable answers, how they are shown to a model, and how it is graded.

This package stays free of heavy imports (no torch, no transformers) until a task is loaded: every
grading worker imports it, and starts in the time that math-verify needs.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vineppo.errors import UserError

if TYPE_CHECKING:
    from vineppo.config.schema import TaskConfig
    from vineppo.types import Problem, Split

# The module of each task kind; it has `load(config, split) -> list[Problem]`.
TASK_MODULES: Mapping[str, str] = {
    "arithmetic": "vineppo.tasks.arithmetic",
    "worded": "vineppo.tasks.worded",
    "gsm8k": "vineppo.tasks.published",
    "math": "vineppo.tasks.published",
    "svamp": "vineppo.tasks.published",
    "olympiadbench": "vineppo.tasks.published",
    "jsonl": "vineppo.tasks.rows",
    "python": "vineppo.tasks.rows",
    "verifiers": "vineppo.tasks.verifiers",
}


@dataclass(frozen=True)
class TaskData:
    """The problems to learn from and the ones to evaluate on; ids are unique over both.

    The ids name the task, the set and the problem's place in it, counted from 0, and stay the same
    from run to run: `data.train_P[17].id == "gsm8k/train/17"`.
    """

    train_P: tuple[Problem, ...]
    test_P: tuple[Problem, ...]


def load_task(config: TaskConfig) -> TaskData:
    """Both sets of a task, each as by `load_split`."""
    data = TaskData(train_P=load_split(config, "train"), test_P=load_split(config, "test"))
    (most_common, count), *_ = Counter(p.id for p in (*data.train_P, *data.test_P)).most_common(1)
    if count > 1:
        raise UserError(f"task {config.kind}: {count} problems have the id {most_common}")
    return data


def load_split(config: TaskConfig, split: Split) -> tuple[Problem, ...]:
    """The problems of one set; the test set is cut to its first `num_test_problems`.

    Raises UserError for data that cannot be read, and for an empty set.

    With `num_test_problems=100`, GSM8K gives 7473 train problems and "gsm8k/test/0" … "/99".
    """
    problems_P = importlib.import_module(TASK_MODULES[config.kind]).load(config, split)
    if not problems_P:
        path = config.train_path if split == "train" else config.test_path
        raise UserError(f"{path or f'task {config.kind}'}: the {split} set is empty")
    return tuple(problems_P if split == "train" else problems_P[: config.num_test_problems])
