"""Checkpoints that appear whole or not at all, and what a resumed run needs of them."""

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from vineppo.distributed import barrier, is_main, local_rank, num_ranks
from vineppo.errors import USER_ERRNOS, UserError
from vineppo.policy import Policy
from vineppo.run_dir import RunDir, read_json, sync
from vineppo.values import ValuePredictor

TEMPORARY = ".tmp-"
STATE = "state.json"


@dataclass(frozen=True)
class TrainState:
    """Where a run stands; seeds, data order and learning rates follow from the iteration."""

    iteration: int
    elapsed_s: float
    metrics: dict[str, Any]  # the line of `iteration`, in case it was never appended
    kl_coef: float  # of the next iteration


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
        self.policy.deepspeed.save_state(directory / "policy")
        for predictor in self.predictors:
            predictor.save_state(directory / predictor.name)

    def load_state(self, directory: Path) -> None:
        self.policy.deepspeed.load_state(directory / "policy")
        for predictor in self.predictors:
            predictor.load_state(directory / predictor.name)


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


def checkpoint_iterations(run: RunDir) -> list[int]:
    """The iterations of the whole checkpoints, ascending."""
    names = (path.name.removeprefix("iter_") for path in run.checkpoints_path.glob("iter_*"))
    return sorted(int(name) for name in names if name.isdecimal())


def read_newest_state(run: RunDir) -> TrainState | None:
    """None without a checkpoint. Raises `UserError` if these ranks cannot continue the newest."""
    iterations = checkpoint_iterations(run)
    if not iterations:
        return None
    directory = run.checkpoint_path(iterations[-1])
    content = read_json(directory / STATE)
    num_writers = content.get("num_ranks", num_ranks())  # older versions wrote a file a rank
    if num_writers != num_ranks():
        raise UserError(
            f"{directory} must be resumed by {num_writers} processes, which wrote it, got "
            f"{num_ranks()}"
        )
    return TrainState(**{one.name: content[one.name] for one in fields(TrainState)})


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """All ranks `write` to a temporary directory, which is synced and then renamed to `target`.

    Raises `UserError` with the system's reason for refusing, such as a full disk.
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
    """The system's reason for refusing to write; None for an error of the writer."""
    hidden = re.search(r"\(os error (\d+)\)", str(error))  # in the text of safetensors
    number = error.errno if isinstance(error, OSError) else hidden and int(hidden[1])
    if number:
        return os.strerror(number) if number in USER_ERRNOS else None
    try:  # torch hides it altogether: ask again
        (directory / "probe").write_bytes(bytes(2**20))
    except OSError as refusal:
        return refusal.strerror
    return None


def remove_whole(target: Path) -> None:
    """Renames before it removes, so that half a checkpoint is never seen under its name."""
    temporary = target.with_name(TEMPORARY + "old-" + target.name)
    shutil.rmtree(temporary, ignore_errors=True)
    os.rename(target, temporary)
    shutil.rmtree(temporary)
