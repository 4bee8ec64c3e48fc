"""Checkpoints are whole or absent."""

import json
import math
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from support.small_disk import in_small_tmpfs

from vineppo.checkpoint import (
    TrainState,
    check_model,
    read_newest_state,
    remove_whole,
    write_state,
    write_whole,
)
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.session import is_finished, open_run_dir, resume

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


def make_checkpoint(directory: Path) -> None:
    """Of two ranks under ZeRO 2, as DeepSpeed names the files; without a state."""
    shards = directory / "trainer/policy/state"
    shards.mkdir(parents=True)
    for name in (
        "mp_rank_00_model_states.pt",
        "zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ):
        torch.save({"weights": torch.zeros(1000)}, shards / name)
    (directory / "policy").mkdir()
    save_file({"weights": torch.zeros(1000)}, directory / "policy/model.safetensors")


def state_of(iteration: int) -> TrainState:
    metrics = {"iteration": iteration, "reward/mean": 0.1 + 0.2, "kl/ref": math.nan}
    return TrainState(iteration, 1.5, metrics, 0.1, 2)


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> Path:
    """As older runs wrote it, without digests."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    directory = tmp_path / "checkpoints/iter_000003"
    make_checkpoint(directory)
    (directory / "state.json").write_text(json.dumps(asdict(state_of(3))))
    return directory


@pytest.fixture
def checkpoints(tmp_path, monkeypatch) -> list[Path]:
    """Of iterations 2 and 3."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    paths = [tmp_path / f"checkpoints/iter_{iteration:06d}" for iteration in (2, 3)]
    for iteration, path in enumerate(paths, start=2):
        make_checkpoint(path)
        write_state(path, state_of(iteration))
    return paths


def test_a_whole_checkpoint_says_where_it_stands(tmp_path, checkpoint):
    assert str(read_newest_state(RunDir(tmp_path))) == str(state_of(3))
    remove_whole(checkpoint)
    assert read_newest_state(RunDir(tmp_path)) is None


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("state.json", cut, "state.json is damaged (Unterminated string"),
        ("state.json", Path.unlink, "state.json is damaged ([Errno 2]"),
        ("trainer", shutil.rmtree, "trainer is missing or empty, "),
        (
            "trainer/policy/state/mp_rank_00_model_states.pt",
            cut,
            "model_states.pt is damaged (cut off), ",
        ),
        (
            "trainer/policy/state/zero_pp_rank_1_mp_rank_00_optim_states.pt",
            Path.unlink,
            "trainer/policy has 1 of the 2 shards of its optimizer, ",
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
    assert f"remove {tmp_path}/checkpoints to begin again" in str(found.value)


@pytest.mark.usefixtures("checkpoint")
def test_other_ranks_cannot_load_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match=r"written by 2 processes, which .* got 3"):
        read_newest_state(RunDir(tmp_path))


def flip(path: Path, place: int | None = None) -> None:
    """One bit, of the middle byte unless `place` says another."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
@pytest.mark.parametrize(
    "name",
    [
        "state.json",
        "policy/model.safetensors",
        "trainer/policy/state/mp_rank_00_model_states.pt",
        "trainer/policy/state/zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ],
)
def test_the_checkpoint_before_a_damaged_one_is_used_which_is_one_line(
    tmp_path, checkpoints, caplog, name, damage
):
    before, newest = checkpoints
    assert read_newest_state(RunDir(tmp_path)).iteration == 3
    damage(newest / name)
    assert read_newest_state(RunDir(tmp_path)).iteration == 2
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"vineppo: {newest / name} is damaged (")
    assert line.endswith(f"): going on from {before}")


def test_no_flipped_bit_of_a_state_is_believed(tmp_path, checkpoints):
    """Or it changes nothing: 0.30000000000000005 is 0.30000000000000004."""
    state = checkpoints[1] / "state.json"
    whole = state.read_bytes()
    states = []
    for place in range(len(whole)):
        flip(state, place)
        states.append(str(read_newest_state(RunDir(tmp_path))))
        state.write_bytes(whole)
    assert set(states) == {str(state_of(2)), str(state_of(3))}
    assert states.count(str(state_of(3))) < 3


def test_a_resumed_run_sets_the_damaged_checkpoint_aside(tmp_path, checkpoints, monkeypatch):
    """And discards what came after the one that it goes on from."""
    before, newest = checkpoints
    monkeypatch.setattr("vineppo.session.barrier", lambda: None)
    monkeypatch.setattr("vineppo.session.from_main", lambda find: find())
    run = RunDir(tmp_path)
    for iteration in (1, 2, 3):
        run.append_metrics({"iteration": iteration})
    flip(newest / "policy/model.safetensors")
    for _ in range(2):
        loaded: list[Path] = []
        state = resume(run, SimpleNamespace(load_state=loaded.append), 0.0)
        assert (state.iteration, loaded) == (2, [before / "trainer"])
        assert [row["iteration"] for row in run.read_metrics()] == [1, 2]
        names = sorted(path.name for path in run.checkpoints_path.iterdir())
        assert names == ["damaged_iter_000003", "iter_000002"]
        shutil.copytree(run.checkpoints_path / "damaged_iter_000003", newest)


def test_where_every_checkpoint_is_damaged_the_newest_is_named(tmp_path, checkpoints):
    for path in checkpoints:
        flip(path / "policy/model.safetensors")
    with pytest.raises(UserError) as found:
        read_newest_state(RunDir(tmp_path))
    assert str(found.value) == (
        f"{checkpoints[1]}/policy/model.safetensors is damaged (its SHA-256 has changed), and no "
        f"checkpoint before it is whole: remove {tmp_path}/checkpoints to begin again from the "
        "start"
    )


def test_a_damaged_policy_is_not_evaluated(checkpoints):
    """But one that only cannot be trained on; what has no digests is taken as it is."""
    policy = checkpoints[1] / "policy"
    flip(checkpoints[1] / "trainer/policy/state/mp_rank_00_model_states.pt")
    check_model(policy)
    flip(policy / "model.safetensors")
    with pytest.raises(UserError, match=r"model\.safetensors is damaged \(its SHA-256"):
        check_model(policy)
    (checkpoints[1] / "state.json").unlink()
    check_model(policy)


def test_a_final_policy_without_weights_is_named(config, tmp_path):
    open_run_dir(config, tmp_path / "run").append_metrics({"iteration": 1})
    policy = tmp_path / "run/final/policy"
    policy.mkdir(parents=True)
    with pytest.raises(UserError) as found:
        is_finished(config, tmp_path / "run")
    assert str(found.value) == (
        f"{policy} has lost its weights (*.safetensors): remove {policy.parent} to have them "
        "written again"
    )
    (policy / "model.safetensors").touch()
    assert is_finished(config, tmp_path / "run")


def test_a_full_disk_that_safetensors_meets_is_one_line(tmp_path):
    """It removes what it wrote, so that there is room when the disk is asked again."""

    def write(_: Path) -> None:
        raise SafetensorError("Error while serializing: I/O error: no room (os error 28)")

    with pytest.raises(UserError, match=r"^cannot write .*/final: No space left on device$"):
        write_whole(tmp_path / "final", write)
