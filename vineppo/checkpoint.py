"""Checkpoints that appear whole or not at all, and what a resumed run needs of them."""

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from vineppo.deepspeed_module import DeepSpeedModule
from vineppo.distributed import barrier, is_main, local_rank, num_ranks
from vineppo.errors import UserError
from vineppo.policy import Policy
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import sync
from vineppo.values.predictor import ValuePredictor

TEMPORARY = ".tmp-"
FULL_DISK_BYTES = 2**20


@dataclass(frozen=True)
class TrainState:
    """Where a run stands. `metrics` is the line of `iteration`, in case it was never appended.

    `kl_coef` is that of the next iteration. Everything else is a pure function of the iteration:
    seeds, data order, learning rate.
    """

    iteration: int
    elapsed_s: float
    metrics: dict[str, Any]
    kl_coef: float
    num_ranks: int  # whose shards the optimizer's state is in


class Saved(Protocol):
    """What checkpoints hold: models to use, and what training on needs."""

    def save_hf(self, directory: Path) -> None: ...

    def save_state(self, directory: Path) -> None: ...

    def load_state(self, directory: Path) -> None: ...


@dataclass(frozen=True)
class Models:
    """What a run with a policy trains."""

    policy: Policy
    predictors: Sequence[ValuePredictor] = ()

    @property
    def leave_while_sampling(self) -> bool:
        return any(model.leaves_while_sampling for model in self._trained.values())

    def offload(self) -> None:
        """What training alone needs leaves the GPU where `offload` says so; undone by `reload`."""
        for model in self._trained.values():
            model.offload()

    def reload(self) -> None:
        for model in self._trained.values():
            model.reload()

    def save_hf(self, directory: Path) -> None:
        self.policy.save_hf(directory / "policy")
        for predictor in self.predictors:
            predictor.save_hf(directory / predictor.name)

    def save_state(self, directory: Path) -> None:
        for name, model in self._trained.items():
            model.save_state(directory / name)

    def load_state(self, directory: Path) -> None:
        for name, model in self._trained.items():
            model.load_state(directory / name)

    @property
    def _trained(self) -> dict[str, DeepSpeedModule | ValuePredictor]:
        """By the names of their folders."""
        return {"policy": self.policy.deepspeed} | {p.name: p for p in self.predictors}


def save_checkpoint(run: RunDir, models: Saved, state: TrainState, keep: int) -> None:
    """Writes `checkpoints/iter_…` and removes all but the newest `keep`."""

    def write(directory: Path) -> None:
        models.save_hf(directory)
        models.save_state(directory / "trainer")
        if is_main():
            (directory / "state.json").write_text(json.dumps(asdict(state)))

    write_whole(run.checkpoint_path(state.iteration), write)
    if is_main():
        for old in checkpoint_iterations(run)[:-keep]:
            remove_whole(run.checkpoint_path(old))


def save_final(run: RunDir, models: Saved) -> None:
    """Writes `final/`; its presence says that the run is finished."""
    write_whole(run.final_path, models.save_hf)


def checkpoint_iterations(run: RunDir) -> list[int]:
    """The iterations of the whole checkpoints, ascending."""
    return sorted(int(path.name[5:]) for path in run.checkpoints_path.glob("iter_??????"))


def sweep_checkpoints(run: RunDir) -> None:
    """Removes what a killed process left half-written or half-removed."""
    for leftover in run.checkpoints_path.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover)


def read_newest_state(run: RunDir) -> TrainState | None:
    """Where the newest checkpoint stands, for `Models.load_state` to load; None without one.

    Raises `UserError` where another number of processes wrote the optimizers' shards, and where a
    file of the checkpoint is missing or cut off: a rank that found that out alone, in the middle of
    a load, would leave the others waiting.
    """
    iterations = checkpoint_iterations(run)
    if not iterations:
        return None
    directory = run.checkpoint_path(iterations[-1])
    remedy = f"remove {directory} to go on from the checkpoint before it, or from the start"
    try:
        state = TrainState(**json.loads((directory / "state.json").read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{directory / 'state.json'} is damaged ({error}): {remedy}") from None
    if state.num_ranks != num_ranks():
        raise UserError(
            f"{directory} was written by {state.num_ranks} processes, which must also go on with "
            f"it, got {num_ranks()}"
        )
    trainer = directory / "trainer"
    for model in sorted(trainer.glob("*")):
        num_shards = len(list(model.rglob("*optim_states.pt")))  # none: in the model's own file
        if num_shards not in (0, state.num_ranks):
            raise UserError(
                f"{model} has {num_shards} of the {state.num_ranks} shards of its optimizer: "
                f"{remedy}"
            )
    files = sorted(trainer.rglob("*.pt"))
    if not files:
        raise UserError(f"{trainer} is missing or empty: {remedy}")
    for file in files:
        if not zipfile.is_zipfile(file):
            raise UserError(f"{file} is damaged: {remedy}")
    return state


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary directory, which is synced and then renamed to `target`.

    All ranks take part in `write`; one of every machine syncs, as a machine can sync only what it
    wrote itself; the main one does the rest. Raises `UserError` where the disk is full.
    """
    temporary = target.with_name(TEMPORARY + target.name)
    try:
        if is_main():
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
        barrier()
        write(temporary)
        barrier()
        if local_rank() == 0:
            for path in [*temporary.rglob("*"), temporary]:
                sync(path)
        barrier()
    except Exception:
        # torch and safetensors report a full disk as errors of their own.
        free = shutil.disk_usage(target.parent).free
        shutil.rmtree(temporary, ignore_errors=True)
        if free < FULL_DISK_BYTES:
            raise UserError(f"cannot write {target}: no space left on device") from None
        raise
    if is_main():
        os.rename(temporary, target)
        sync(target.parent)
    barrier()


def remove_whole(target: Path) -> None:
    """Renames before it removes, so that half a checkpoint is never seen under its name."""
    temporary = target.with_name(TEMPORARY + "old-" + target.name)
    shutil.rmtree(temporary, ignore_errors=True)
    os.rename(target, temporary)
    shutil.rmtree(temporary)
