"""Checkpoints are whole or absent."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from vineppo.checkpoint import TrainState, read_newest_state, remove_whole, write_whole
from vineppo.errors import UserError
from vineppo.run_dir import RunDir

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


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> Path:
    """Of two ranks under ZeRO 2, as DeepSpeed names the files."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    directory = tmp_path / "checkpoints/iter_000003"
    shards = directory / "trainer/policy/state"
    shards.mkdir(parents=True)
    for name in (
        "mp_rank_00_model_states.pt",
        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ):
        torch.save({"weights": torch.zeros(1000)}, shards / name)
    state = TrainState(3, 1.5, {"iteration": 3}, 0.1, 2)
    (directory / "state.json").write_text(json.dumps(asdict(state)))
    return directory


def test_a_whole_checkpoint_says_where_it_stands(tmp_path, checkpoint):
    assert read_newest_state(RunDir(tmp_path)) == TrainState(3, 1.5, {"iteration": 3}, 0.1, 2)
    remove_whole(checkpoint)
    assert read_newest_state(RunDir(tmp_path)) is None


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("state.json", cut, "state.json is damaged (Unterminated string"),
        ("state.json", Path.unlink, "state.json is damaged ([Errno 2]"),
        ("trainer", shutil.rmtree, "trainer is missing or empty: "),
        ("trainer/policy/state/mp_rank_00_model_states.pt", cut, "model_states.pt is damaged: "),
        (
            "trainer/policy/state/zero_pp_rank_1_mp_rank_00_optim_states.pt",
            Path.unlink,
            "trainer/policy has 1 of the 2 shards of its optimizer: ",
        ),
    ],
)
def test_a_damaged_checkpoint_is_named_before_it_is_loaded(
    tmp_path, checkpoint, name, damage, message
):
    damage(checkpoint / name)
    with pytest.raises(UserError) as found:
        read_newest_state(RunDir(tmp_path))
    assert message in str(found.value)
    assert f"remove {checkpoint} to go on" in str(found.value)


@pytest.mark.usefixtures("checkpoint")
def test_other_ranks_cannot_load_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match=r"written by 2 processes, which .* got 3"):
        read_newest_state(RunDir(tmp_path))
