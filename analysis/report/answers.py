"""The right answers of the runs' problems, which their tables do not hold: from their tasks."""

import json
from collections.abc import Sequence
from typing import Any

from vineppo.errors import UserError

# Question and answer by problem id.
Answers = dict[str, tuple[str, str]]


def answers_of_runs(configs: Sequence[dict[str, Any]]) -> list[Answers]:
    """Those of each run's train problems; a task that several runs share is read once."""
    by_task: dict[str, Answers] = {}
    found = []
    for config in configs:
        task = config.get("task") or {}
        written = json.dumps(task, sort_keys=True)
        if written not in by_task:
            by_task[written] = right_answers(task)
        found.append(by_task[written])
    return found


def right_answers(task: dict[str, Any]) -> Answers:
    """Of the task of a run's config; empty where the task is not to be had.

    A generated task and local files are read; nothing is fetched for a page. The paths are relative
    to where the run was started.
    """
    if task.get("kind") != "arithmetic" and not task.get("train_path"):
        return {}
    # Reading the tables needs none of these, which take seconds.
    from pydantic import TypeAdapter, ValidationError

    from vineppo.config.schema import TaskConfig
    from vineppo.tasks import load_split

    adapter: TypeAdapter[TaskConfig] = TypeAdapter(TaskConfig)
    try:
        train_P = load_split(adapter.validate_json(json.dumps(task)), "train")
    except (UserError, ValidationError):  # another version's config, or files that have moved
        return {}
    return {problem.id: (problem.question, problem.answer) for problem in train_P}
