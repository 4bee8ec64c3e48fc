"""Checkpoints that appear whole or not at all, and what a resumed run needs of them."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from vineppo.deepspeed_module import DeepSpeedModule
from vineppo.distributed import barrier, is_main, local_rank, num_ranks
from vineppo.errors import USER_ERRNOS, UserError
from vineppo.policy import Policy
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import read_json, sync, write_atomic
from vineppo.values.predictor import ValuePredictor

TEMPORARY = ".tmp-"
STATE = "state.json"
PROBE_BYTES = 2**20


@dataclass(frozen=True)
class TrainState:
    """Where a run stands. `metrics` is the line of `iteration`, in case it was never appended.

    `kl_coef` is for the next iteration. Everything else is a pure function of the iteration:
    seeds, data order, learning rate.
    """

    iteration: int
    elapsed_s: float
    metrics: dict[str, Any]
    kl_coef: float
    num_ranks: int  # whose shards the optimizer's state is in


class Saved(Protocol):
    """Checkpoints hold models to use, and states to resume training from."""

    def save_hf(self, directory: Path) -> None: ...

    def save_state(self, directory: Path) -> None: ...

    def load_state(self, directory: Path) -> None: ...


@dataclass(frozen=True)
class Models:
    """The trained models of a run with a policy."""

    policy: Policy
    predictors: Sequence[ValuePredictor] = ()

    def save_hf(self, directory: Path) -> None:
        self.policy.save_hf(directory / "policy")
        if is_main() and self.policy.adapters is not None:
            self.policy.adapters.save(self.policy.hf_model, directory / "adapter")
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
            (directory / STATE).write_text(json.dumps(asdict(state)))

    write_whole(run.checkpoint_path(state.iteration), write)
    if is_main():
        for old in checkpoint_iterations(run)[:-keep]:
            remove_whole(run.checkpoint_path(old))


def save_final(run: RunDir, models: Saved) -> None:
    """Writes `final/`; its presence says that the run is finished."""
    write_whole(run.final_path, models.save_hf)


def checkpoint_iterations(run: RunDir) -> list[int]:
    """The iterations of the whole checkpoints, ascending."""
    names = (path.name.removeprefix("iter_") for path in run.checkpoints_path.glob("iter_*"))
    return sorted(int(name) for name in names if name.isdecimal())


def sweep_checkpoints(run: RunDir) -> None:
    """Removes what a killed process left half-written or half-removed."""
    for leftover in run.checkpoints_path.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover)


def read_newest_state(run: RunDir) -> TrainState | None:
    """Where the newest checkpoint stands, for `Models.load_state`; None without one.

    Raises `UserError` if it cannot be read, or if another number of processes wrote the optimizers'
    shards: a rank that noticed while it loads would leave the others waiting.
    """
    iterations = checkpoint_iterations(run)
    if not iterations:
        return None
    directory = run.checkpoint_path(iterations[-1])
    content = read_json(directory / STATE)
    state = TrainState(**{one.name: content[one.name] for one in fields(TrainState)})
    if state.num_ranks != num_ranks():
        raise UserError(
            f"{directory} was written by {state.num_ranks} processes, which must also go on with "
            f"it, got {num_ranks()}"
        )
    return state


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary directory, which is synced and then renamed to `target`.

    All ranks call `write`. One rank of every machine syncs, because a machine can sync only what it
    wrote. Raises `UserError` with the system's reason for refusing: a full disk, a quota, say.
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
        if is_main():
            os.rename(temporary, target)
            sync(target.parent)
        barrier()
    except Exception as error:
        reason = _refusal(temporary, error)
        shutil.rmtree(temporary, ignore_errors=True)
        if reason is not None:
            raise UserError(f"cannot write {target}: {reason}") from None
        raise


def _refusal(directory: Path, error: Exception) -> str | None:
    """The system's reason for refusing to write; None for an error of the writer.

    safetensors hides the reason in its text, and torch hides it altogether: ask again.
    """
    if isinstance(error, OSError):
        return error.strerror if error.errno in USER_ERRNOS else None
    if found := re.search(r"\(os error (\d+)\)", str(error)):
        return os.strerror(int(found[1])) if int(found[1]) in USER_ERRNOS else None
    try:
        write_atomic(directory / "probe", bytes(PROBE_BYTES))
    except UserError as refusal:
        cause = refusal.__cause__
        return cause.strerror if isinstance(cause, OSError) else str(refusal)
    return None


def remove_whole(target: Path) -> None:
    """Renames before it removes, so that half a checkpoint is never seen under its name."""
    temporary = target.with_name(TEMPORARY + "old-" + target.name)
    shutil.rmtree(temporary, ignore_errors=True)
    os.rename(target, temporary)
    shutil.rmtree(temporary)
