"""Checkpoints are whole or absent."""

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from safetensors import SafetensorError
from support.small_disk import in_small_tmpfs

from vineppo.checkpoint import TrainState, read_newest_state, remove_whole, write_whole
from vineppo.errors import UserError
from vineppo.run_dir import RunDir

WRITE = """
import subprocess, sys, torch
from pathlib import Path
from vineppo.checkpoint import write_whole
from vineppo.errors import UserError
path = Path(sys.argv[1])
{before}
def write(directory):
    torch.save(torch.zeros(2**21), directory / "weights.pt")
try:
    write_whole(path / "iter_000001", write)
except UserError as error:
    print(error)
print(sorted(entry.name for entry in path.iterdir()))
"""
REMOUNT = 'subprocess.run(["mount", "-o", "remount,ro", path], check=True)'
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))"


def lines_of(done: subprocess.CompletedProcess[str], path: Path) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(path), "RUN").splitlines()


def script(before: str, path: Path) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", WRITE.format(before=before), str(path)]


@pytest.mark.parametrize(
    ("before", "reason"), [("", "No space left on device"), (REMOUNT, "Read-only file system")]
)
def test_what_the_disk_refuses_is_one_clear_line_and_leaves_nothing(tmp_path, before, reason):
    done = in_small_tmpfs(tmp_path, script(before, tmp_path))
    assert lines_of(done, tmp_path) == [f"cannot write RUN/iter_000001: {reason}", "[]"]


def test_a_limit_of_the_size_of_files_is_one_clear_line(tmp_path):
    done = subprocess.run(script(LIMIT, tmp_path), capture_output=True, text=True)
    assert lines_of(done, tmp_path) == ["cannot write RUN/iter_000001: File too large", "[]"]


def test_an_error_of_the_writer_leaves_nothing_and_is_not_hidden(tmp_path):
    def write(directory: Path) -> None:
        (directory / "half").write_text("x")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_whole(tmp_path / "iter_000001", write)
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_kill_do_not_matter(tmp_path):
    (tmp_path / ".tmp-iter_000001/policy").mkdir(parents=True)
    (tmp_path / ".tmp-iter_000001/policy/half").write_text("x")
    write_whole(tmp_path / "iter_000001", lambda directory: (directory / "a").write_text("1"))
    assert [path.name for path in (tmp_path / "iter_000001").iterdir()] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["iter_000001"]
    remove_whole(tmp_path / "iter_000001")
    assert list(tmp_path.iterdir()) == []


def state_of(iteration: int) -> TrainState:
    metrics = {"iteration": iteration, "reward/mean": 0.1 + 0.2, "kl/ref": math.nan}
    return TrainState(iteration, 1.5, metrics, 0.1)


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> Path:
    """The newest of two."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for iteration in (2, 3):
        directory = tmp_path / f"checkpoints/iter_{iteration:06d}"
        directory.mkdir(parents=True)
        content = {**asdict(state_of(iteration)), "sha256": {}, "num_ranks": 2}  # of older runs
        (directory / "state.json").write_text(json.dumps(content))
    return directory


def test_the_newest_checkpoint_says_where_it_stands(tmp_path, checkpoint):
    assert str(read_newest_state(RunDir(tmp_path))) == str(state_of(3))
    remove_whole(checkpoint)
    assert str(read_newest_state(RunDir(tmp_path))) == str(state_of(2))
    assert read_newest_state(RunDir(tmp_path / "other")) is None


def test_a_checkpoint_that_cannot_be_loaded_is_one_line(tmp_path, checkpoint, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match=r"must be resumed by 2 processes, .* got 3"):
        read_newest_state(RunDir(tmp_path))
    (checkpoint / "state.json").write_text("{")
    with pytest.raises(UserError, match=r"iter_000003/state\.json is no JSON file"):
        read_newest_state(RunDir(tmp_path))


def test_a_full_disk_that_safetensors_meets_is_one_line(tmp_path):
    """It removes what it wrote, so that there is room when the disk is asked again."""

    def write(_: Path) -> None:
        raise SafetensorError("Error while serializing: I/O error: no room (os error 28)")

    with pytest.raises(UserError, match=r"^cannot write .*/final: No space left on device$"):
        write_whole(tmp_path / "final", write)
