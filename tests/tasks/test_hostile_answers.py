"""Whatever a response says, it gets a reward: the grader neither hangs nor breaks nor runs it."""

import platform
import sys
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from support import comparators
from support.grids import grid
from support.hostile_answers import FRAMES, TRUE_ANSWERS, hostile_answers
from support.task_configs import GRADING

from vineppo.tasks.answers import EXTRACTORS
from vineppo.tasks.grading import Grader
from vineppo.tasks.worker_pool import WorkerPool
from vineppo.types import Problem

filtered = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="the filter of system calls is for Linux on x86-64",
)


@pytest.mark.parametrize(
    ("extraction", "count"), grid(("boxed", 30), slow=[(name, 1_250) for name in EXTRACTORS])
)
def test_hostile_answers_get_a_reward(extraction: Any, count: int, tmp_path: Path) -> None:
    """And have nothing compiled, imported or opened, or `audited` would end its worker."""
    forbidden = tmp_path / "touched"
    texts = hostile_answers(count, seed=0, forbidden_path=str(forbidden))
    assert len(texts) == count
    config = replace(GRADING, extraction=extraction, time_limit_s=1.0)
    frame = FRAMES[extraction]
    with Grader(config, comparators.audited) as grader:
        futures = [
            grader.submit(Problem("", "", answer), frame.replace("%s", text), "stop")
            for text, answer in zip(texts, cycle(TRUE_ANSWERS), strict=False)
        ]
        rewards = [future.result(timeout=600) for future in futures]
        sane = grader.submit(Problem("", "", r"\frac{1}{2}"), frame % "0.5", "stop")
        assert sane.result(timeout=600) == 1.0
        metrics = grader.metrics()
    assert set(rewards) <= {0.0, 1.0}
    assert metrics["grading/num_worker_deaths"] == 0
    assert metrics["grading/num_timeouts"] < 0.1 * count
    assert not forbidden.exists()


def test_the_audit_ends_a_worker_that_evaluates_a_text() -> None:
    with Grader(replace(GRADING, extraction="boxed"), comparators.audited_eval) as grader:
        reward = grader.submit(Problem("", "", "2x"), r"\boxed{x}", "stop")
        assert reward.result(timeout=600) == 0.0
        assert grader.metrics()["grading/num_worker_deaths"] == 1


@filtered
def test_a_worker_reaches_neither_files_nor_network_nor_processes(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.touch()
    pool = WorkerPool(comparators.is_confined, num_workers=1, time_limit_s=10.0)
    try:
        assert pool.submit(str(kept), str(new)).result(timeout=600)
    finally:
        pool.close()
    assert kept.exists()
    assert not new.exists()
