"""Checkpoints that appear whole or not at all, and what a resumed run needs of them."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vineppo.errors import UserError
from vineppo.policy import Policy
from vineppo.run_dir import RunDir
from vineppo.run_dir.atomic import sync

TEMPORARY = ".tmp-"
FULL_DISK_BYTES = 2**20


@dataclass(frozen=True)
class TrainState:
    """Where a run stands. `metrics` is the line of `iteration`, in case it was never appended.

    Everything else is a pure function of the iteration: seeds, data order, learning rate.
    """

    iteration: int
    elapsed_s: float
    metrics: dict[str, Any]


def save_checkpoint(run: RunDir, policy: Policy, state: TrainState, keep: int) -> None:
    """Writes `checkpoints/iter_…` and removes all but the newest `keep`."""

    def write(directory: Path) -> None:
        policy.save_hf(directory / "policy")
        policy.save_state(directory / "trainer")
        (directory / "state.json").write_text(json.dumps(asdict(state)))

    write_whole(run.checkpoint_path(state.iteration), write)
    for old in checkpoint_iterations(run)[:-keep]:
        remove_whole(run.checkpoint_path(old))


def save_final(run: RunDir, policy: Policy) -> None:
    """Writes `final/`; its presence says that the run is finished."""
    write_whole(run.final_path, lambda directory: policy.save_hf(directory / "policy"))


def checkpoint_iterations(run: RunDir) -> list[int]:
    """The iterations of the whole checkpoints, ascending."""
    return sorted(int(path.name[5:]) for path in run.checkpoints_path.glob("iter_??????"))


def sweep_checkpoints(run: RunDir) -> None:
    """Removes what a killed process left half-written or half-removed."""
    for leftover in run.checkpoints_path.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover)


def load_state(directory: Path, policy: Policy) -> TrainState:
    """Restores weights and optimizer in place."""
    policy.load_state(directory / "trainer")
    return TrainState(**json.loads((directory / "state.json").read_text()))


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary directory, which is synced and then renamed to `target`.

    Raises `UserError` where the disk is full.
    """
    temporary = target.with_name(TEMPORARY + target.name)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        write(temporary)
    except Exception:
        # torch and safetensors report a full disk as errors of their own.
        free = shutil.disk_usage(target.parent).free
        shutil.rmtree(temporary, ignore_errors=True)
        if free < FULL_DISK_BYTES:
            raise UserError(f"cannot write {target}: no space left on device") from None
        raise
    for path in [*temporary.rglob("*"), temporary]:
        sync(path)
    os.rename(temporary, target)
    sync(target.parent)


def remove_whole(target: Path) -> None:
    """Renames before it removes, so that half a checkpoint is never seen under its name."""
    temporary = target.with_name(TEMPORARY + "old-" + target.name)
    shutil.rmtree(temporary, ignore_errors=True)
    os.rename(target, temporary)
    shutil.rmtree(temporary)
