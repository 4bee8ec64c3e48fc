"""Whatever a response says, it gets a reward: the grader neither hangs nor breaks nor runs it."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.hostile import TRUE_ANSWERS, hostile_answers
from support.task_configs import GRADING

from vineppo.tasks.extraction import EXTRACTORS
from vineppo.tasks.grading import Grader
from vineppo.types import Problem

FRAMES = {"boxed": "So $\\boxed{%s}$.", "hash": "So\n#### %s", "final_answer": "final answer is %s"}


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_hostile_answers_get_a_reward(count: int, tmp_path: Path) -> None:
    forbidden = tmp_path / "touched"
    texts = hostile_answers(count, seed=0, forbidden_path=str(forbidden))
    assert len(texts) == count
    num_failed = 0.0
    for extraction in EXTRACTORS:
        config = replace(GRADING, extraction=extraction, num_workers=2, time_limit_s=1.0)
        frame = FRAMES.get(extraction, "%s")
        mine = list(enumerate(texts))[list(EXTRACTORS).index(extraction) :: len(EXTRACTORS)]
        with Grader(config) as grader:
            futures = [
                grader.submit(
                    Problem("", "", TRUE_ANSWERS[i % len(TRUE_ANSWERS)]),
                    frame.replace("%s", text),
                    "stop",
                )
                for i, text in mine
            ]
            rewards = [future.result(timeout=600) for future in futures]
            sane = grader.submit(Problem("", "", r"\frac{1}{2}"), frame % "0.5", "stop")
            assert sane.result(timeout=60) == 1.0
            metrics = grader.metrics()
        assert set(rewards) <= {0.0, 1.0}
        assert metrics["grading/num_worker_deaths"] == 0
        num_failed += metrics["grading/num_timeouts"]
    assert not forbidden.exists()
    assert num_failed < 0.1 * count
