"""Who may go on with a run directory: one process at a time, with the own files it began with."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import NO_LOCKS, TEMPORARY_SUFFIX

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


@pytest.mark.parametrize("leftover", [False, True])
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


def test_a_file_system_that_locks_for_writers_alone(tmp_path, monkeypatch):
    """NFS grants an exclusive lock only to a file that is open for writing."""

    def flock(file, _):
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", flock)
    before = RunDir.open(tmp_path, CONFIG).config_path.read_bytes()
    assert RunDir.open(tmp_path, CONFIG).config_path.read_bytes() == before


def refuse(number):
    def flock(*_):
        raise OSError(number, os.strerror(number))

    return flock


@pytest.mark.parametrize("number", sorted(NO_LOCKS))
def test_a_file_system_without_locks_is_said_in_a_line(tmp_path, monkeypatch, caplog, number):
    monkeypatch.setattr(fcntl, "flock", refuse(number))
    assert RunDir.open(tmp_path, CONFIG).read_config() == CONFIG
    assert [record.getMessage() for record in caplog.records] == [
        f"vineppo: {tmp_path} cannot be locked ({os.strerror(number)}): start no second process on "
        "it"
    ]


def test_another_failure_of_the_lock_is_not_hidden(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", refuse(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        RunDir.open(tmp_path, CONFIG)


def test_an_own_file_must_be_what_it_was(tmp_path):
    """But in a run without a result, and in one that is older than the record."""
    RunDir.open(tmp_path, CONFIG, {"mine.py": "a", "reward.py": "b"})
    mended = {"mine.py": "c", "reward.py": "b"}
    RunDir.open(tmp_path, CONFIG, mended).append_metrics({"iteration": 1})
    with pytest.raises(UserError) as refusal:
        RunDir.open(tmp_path, CONFIG, {"mine.py": "a", "reward.py": "b"})
    assert str(refusal.value) == (
        f"mine.py has changed since the run in {tmp_path} began (own_files.json there has its "
        "SHA-256): undo the change, or give the run another directory"
    )
    RunDir.open(tmp_path, CONFIG, mended)
    (tmp_path / "own_files.json").unlink()
    RunDir.open(tmp_path, CONFIG, {"mine.py": "d", "reward.py": "b"})
    with pytest.raises(UserError, match=r"mine\.py has changed"):
        RunDir.open(tmp_path, CONFIG, mended)


def test_a_mended_config_forgets_the_own_files_of_the_one_before(tmp_path):
    RunDir.open(tmp_path, CONFIG, {"mine.py": "a"})
    assert (tmp_path / "own_files.json").exists()
    RunDir.open(tmp_path, CONFIG | {"name": "mended"})
    assert not (tmp_path / "own_files.json").exists()
