"""Checkpoints are whole or absent."""

import subprocess
import sys
from pathlib import Path

import pytest

from vineppo.checkpoint import remove_whole, write_whole

FULL = """
import torch
from pathlib import Path
from vineppo.checkpoint import write_whole
def write(directory):
    torch.save(torch.zeros(2**21), directory / "weights.pt")
write_whole(Path("{path}/iter_000001"), write)
"""


def in_small_tmpfs(path: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs `command` with 4 MiB of space in `path`, in a mount namespace of its own."""
    mount = f'mount -t tmpfs -o size=4m tmpfs {path} && exec "$@"'
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *command],
        capture_output=True,
        text=True,
    )


def test_a_full_disk_is_one_clear_line(tmp_path):
    if in_small_tmpfs(tmp_path, ["true"]).returncode != 0:
        pytest.skip("needs unshare and the right to mount a tmpfs")
    script = FULL.format(path=tmp_path)
    found = in_small_tmpfs(tmp_path, [sys.executable, "-W", "ignore", "-c", script])
    last = found.stderr.strip().splitlines()[-1]
    message = f"cannot write {tmp_path}/iter_000001: no space left on device"
    assert last == f"vineppo.errors.UserError: {message}"


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
