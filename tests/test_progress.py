"""What a person is told: of an engine that makes no step, of updates that were skipped."""

import logging
import time
from types import SimpleNamespace

import pytest

from vineppo import progress
from vineppo.progress import Progress, summary

ENGINE = SimpleNamespace(counts=SimpleNamespace(sampled_tokens=0), num_unfinished=1)
LIMIT_S = 0.2


@pytest.mark.parametrize(("phase", "num_lines"), [("values", 1), ("update", 0)])
def test_an_engine_that_makes_no_step_is_said_once(monkeypatch, caplog, phase, num_lines):
    monkeypatch.setattr(progress, "STALL_S", LIMIT_S)
    caplog.set_level(logging.INFO, "vineppo")
    with Progress(1, 0, 0.0) as shown:
        shown.enter(phase)
        time.sleep(4 * LIMIT_S)
        lines = [record.getMessage() for record in caplog.records]
        assert lines == [f"no step of the engine for 0.2 s, in the phase '{phase}'"] * num_lines
        shown.tick(ENGINE)
        time.sleep(4 * LIMIT_S)
        assert len(caplog.records) == 2 * num_lines


def test_steps_are_no_stall(monkeypatch, caplog):
    monkeypatch.setattr(progress, "STALL_S", 1.0)
    caplog.set_level(logging.INFO, "vineppo")
    with Progress(1, 0, 0.0) as shown:
        shown.enter("values")
        for _ in range(15):
            shown.tick(ENGINE)
            time.sleep(0.1)
    assert caplog.records == []


def test_skipped_updates_are_in_the_line_where_there_are_any():
    metrics = {"reward/mean": 0.5, "policy/skipped_updates": 0.0, "critic/skipped_updates": 4.0}
    metrics["grading/num_timeouts"] = 2.0
    told = "critic/skipped_updates 4  grading/num_timeouts 2"
    assert summary(metrics) == f"reward 0.500  {told}"
