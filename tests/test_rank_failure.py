"""A rank that dies ends the job within a minute, says why, and leaves nothing running."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from support.ranks import (
    CASE,
    LIMIT_S,
    ROOT,
    SUPPORT,
    TIMEOUT_S,
    TORCHRUN,
    finish,
    start,
    wait_for,
)


def start_failing(configs: Path, run_dir: Path) -> subprocess.Popen[bytes]:
    command = [*TORCHRUN, str(SUPPORT / "failing_rank.py"), "train"]
    command += [str(configs / CASE.config), f"--run-dir={run_dir}"]
    command += [f"--set={key}={value}" for key, value in CASE.settings(stage=0).items()]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )


def is_rank_1(process: psutil.Process) -> bool:
    """A rank itself, not the grading workers that inherit its environment."""
    try:
        is_rank = any("sharding.py" in part for part in process.cmdline())
        return is_rank and process.environ().get("RANK") == "1"
    except psutil.Error:  # it has just ended
        return False


def test_an_error_of_one_rank_ends_the_job_with_its_traceback(configs, tmp_path):
    """…and the job, started again, goes on from the last checkpoint to its end."""
    run_dir = tmp_path / "run"
    process = start_failing(configs, run_dir)
    wait_for(run_dir / "checkpoints/iter_000001", process)
    family = psutil.Process(process.pid).children(recursive=True)
    started = time.monotonic()
    output = process.communicate(timeout=TIMEOUT_S)[0].decode()
    assert time.monotonic() - started < LIMIT_S
    assert process.returncode != 0
    assert "Traceback" in output
    assert "RuntimeError: rank 1 gives up" in output
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    output = finish(start(configs, run_dir, CASE, 0, num_ranks=2))
    assert output.count("resumed after iteration 1") == 1
    assert (run_dir / "final").is_dir()


@pytest.mark.slow
def test_a_killed_rank_ends_the_job(configs, tmp_path):
    run_dir = tmp_path / "run"
    process = start(configs, run_dir, CASE, 0, num_ranks=2)
    wait_for(run_dir / "checkpoints/iter_000001", process)
    family = psutil.Process(process.pid).children(recursive=True)
    next(process for process in family if is_rank_1(process)).send_signal(signal.SIGKILL)
    output = process.communicate(timeout=LIMIT_S)[0].decode()
    assert process.returncode != 0
    assert "exitcode" in output
    assert "-9" in output
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
