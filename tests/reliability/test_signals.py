"""A run that SIGTERM or Ctrl-C interrupts resumes to the same numbers."""

import os
import signal

import pytest
from support.grids import grid
from support.marks import Job, left_half_written
from support.training import SHORT, arguments, assert_same_runs, num_lines

NAME = "recipes/transformers_engine"


@pytest.mark.parametrize("num_ranks", grid(1, slow=[2]))
def test_sigterm_and_ctrl_c_leave_a_checkpoint(whole_runs, tmp_path, num_ranks):
    """The checkpoint has the last iteration done: the one before if the signal comes in sampling.

    The signal reaches the last rank alone.
    """
    given = arguments(tmp_path, NAME, {**SHORT, "checkpoint.every": 100})
    for phase, number, done in (("values", signal.SIGTERM, 1), ("update", signal.SIGINT, 2)):
        times = 2 if number == signal.SIGTERM else 1  # a scheduler and a launcher
        sent = f" {number:d}" * times
        job = Job(num_ranks, given, SIGNALS=f"{num_ranks - 1} 2 {phase}{sent}")
        output = "".join(job.communicate())
        assert [process.returncode for process in job.ranks] == [1] * num_ranks, output
        assert output.count(f"interrupted ({number.name}) after iteration {done}") == 1
        assert "Traceback" not in output
        assert num_lines(tmp_path) == done
        checkpoints = {path.name for path in tmp_path.glob("checkpoints/*")}
        assert checkpoints == {f"iter_{iteration:06d}" for iteration in range(1, done + 1)}
    output = Job(num_ranks, given).finish()
    assert f"resumed after iteration {done}" in output
    if num_ranks == 1:
        assert_same_runs(tmp_path, whole_runs(NAME, SHORT))
    assert left_half_written(tmp_path) == []


HANGS = """
import os, time

def reward(question, answer, response):
    while os.path.exists(r"{marker}"):
        time.sleep(0.1)
    return 1.0
"""


def test_sigterm_ends_the_wait_for_graders(tmp_path):
    marker, file = tmp_path / "marker", tmp_path / "mine.py"
    file.write_text(HANGS.format(marker=marker))
    own = {"task.grading.reward_path": str(file), "task.grading.time_limit_s": 60.0}
    job = Job(1, arguments(tmp_path / "run", NAME, {**SHORT, **own}))
    job.wait_for(2, "rollout")
    marker.touch()
    job.wait_for(2, "grading")
    os.kill(job.ranks[0].pid, signal.SIGTERM)
    output = "".join(job.communicate())
    assert job.ranks[0].returncode == 1, output
    assert "interrupted (SIGTERM) after iteration 1" in output
