"""Families of reasoning-gym with one right answer a problem."""

from pathlib import Path

import pytest

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader

LEAF = str(Path(__file__).parents[2] / "configs" / "recipes" / "reasoning_gym.jsonnet")
SIZES = ["task.num_train_problems=20", "task.num_test_problems=10"]


def test_tasks_of_reasoning_gym():
    """Different problems to train and to test on, the same each time; own answers are right."""
    pytest.importorskip("reasoning_gym", reason="the extra `gym` is not installed")
    task = load_config(TrainConfig, LEAF, [*SIZES, 'task.options={"max_animals": 4}']).task
    data = load_task(task)
    assert data == load_task(task)
    assert len({problem.question for problem in (*data.train_P, *data.test_P)}) == 30
    with Grader(task.grading) as grader:
        for problem in data.train_P[:3]:
            texts = [f"So \\boxed{{{answer}}}" for answer in (problem.answer, "-1")] + ["no box"]
            rewards = [grader.submit(problem, text, "stop").result() for text in texts]
            assert rewards == [1.0, 0.0, 0.0]
    for wrong in ("name=countdown", 'options={"legs": 4}'):  # countdown's grader runs sympy's eval
        with pytest.raises(UserError, match=r"task\.name must be one of|task\.options do not fit"):
            load_task(load_config(TrainConfig, LEAF, [*SIZES, f"task.{wrong}"]).task)
