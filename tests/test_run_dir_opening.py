"""Who may go on with a run directory: one process at a time, with the own files it began with."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from vineppo.errors import UserError
from vineppo.run_dir import TEMPORARY_SUFFIX, RunDir

CONFIG = {"name": "x", "num_iterations": 10}
# Opens each directory that its parent names, and holds it until the next.
OPENER = """
import sys
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
for line in sys.stdin:
    try:
        kept = RunDir.open(line.strip(), {"name": "y"})
        print("open", flush=True)
    except UserError as error:
        print(error, flush=True)
"""


def test_a_directory_in_use_is_refused(tmp_path):
    """By a second process, which must not sweep away what the first is writing."""
    opened = RunDir.open(tmp_path, CONFIG)
    half = tmp_path / f".config.json.1{TEMPORARY_SUFFIX}"
    half.write_text("{")
    again = f"RunDir.open({str(tmp_path)!r}, {CONFIG!r})"
    script = f"from vineppo.run_dir import RunDir\n{again}"
    second = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"{tmp_path} is in use by another process" in second.stderr
    assert half.exists()
    del opened
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    assert not half.exists()


def test_a_run_that_another_process_finished_meanwhile_is_not_opened(tmp_path):
    RunDir.open(tmp_path, CONFIG).final_path.mkdir()
    with pytest.raises(UserError, match="was finished by another process"):
        RunDir.open(tmp_path, CONFIG)


@pytest.mark.parametrize("leftover", [pytest.param(False, marks=pytest.mark.slow), True])
def test_of_two_that_start_at_once_one_is_refused(tmp_path, leftover):
    """In a new directory, and where both take over what failed before its first result."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    pair = [subprocess.Popen([sys.executable, "-c", OPENER], **pipes) for _ in range(2)]
    for number in range(40):
        path = tmp_path / str(number)
        if leftover:
            RunDir.open(path, {"name": "x"})
        for process in pair:
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
        said = [process.stdout.readline().strip() for process in pair]
        assert sorted(line == "open" for line in said) == [False, True], said
        assert all(line == "open" or line.startswith(f"{path} ") for line in said), said
    for process in pair:
        process.communicate()


def test_a_file_system_without_locks_is_said_in_a_line(tmp_path, monkeypatch, caplog):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert RunDir.open(tmp_path, CONFIG).read_config() == CONFIG
    assert [record.getMessage() for record in caplog.records] == [
        f"vineppo: {tmp_path} cannot be locked (No locks available): start no second process on it"
    ]


def test_an_own_file_must_be_what_it_was(tmp_path):
    """But in a run without a result, and in one that is older than the record."""
    RunDir.open(tmp_path, CONFIG, {"mine.py": "a", "reward.py": "b"})
    mended = {"mine.py": "c", "reward.py": "b"}
    RunDir.open(tmp_path, CONFIG, mended).append_metrics({"iteration": 1})
    with pytest.raises(UserError) as refusal:
        RunDir.open(tmp_path, CONFIG, {"mine.py": "a", "reward.py": "b"})
    assert str(refusal.value) == (
        f"mine.py has changed since the run in {tmp_path} began: undo the change or give another "
        "--run-dir"
    )
    RunDir.open(tmp_path, CONFIG, mended)
    (tmp_path / "own_files.json").unlink()
    RunDir.open(tmp_path, CONFIG, {"mine.py": "d", "reward.py": "b"})
    RunDir.open(tmp_path / "new", CONFIG, {"mine.py": "a"})
    RunDir.open(tmp_path / "new", CONFIG | {"name": "mended"})
    assert not (tmp_path / "new/own_files.json").exists()
