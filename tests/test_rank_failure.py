"""A rank that fails ends the job, says why, and leaves nothing running."""

import pytest
from support.ranks import CASE, TIMEOUT_S, left_running, start_torchrun, train_on_two


@pytest.mark.slow
def test_an_error_of_one_rank_ends_the_job_with_its_traceback(tmp_path):
    """…and the job, started again, goes on from the last checkpoint to its end."""
    run_dir = tmp_path / "run"
    process = start_torchrun(run_dir, CASE, 0, program="failing_rank.py")
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode != 0
    assert "Traceback" in output
    assert "RuntimeError: rank 1 gives up" in output
    assert not left_running(run_dir)
    output = train_on_two(run_dir, CASE, 0)
    assert output.count("resumed after iteration 1") == 1
    assert (run_dir / "final").is_dir()
