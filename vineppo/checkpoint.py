"""Checkpoints that appear whole or not at all, and what a resumed run needs of them."""

import hashlib
import json
import logging
import os
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from vineppo.deepspeed_module import DeepSpeedModule
from vineppo.distributed import barrier, is_main, local_rank, num_ranks
from vineppo.errors import USER_ERRNOS, UserError
from vineppo.lora import has_adapters, save_adapters
from vineppo.policy import Policy
from vineppo.run_dir import RunDir
from vineppo.run_dir.files import digests, first_damage, sync, write_atomic
from vineppo.values.predictor import ValuePredictor

TEMPORARY = ".tmp-"
DAMAGED = "damaged_"  # what a checkpoint's name begins with that a resumed run has passed over
STATE = "state.json"
PROBE_BYTES = 2**20

logger = logging.getLogger(__name__)


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
    num_threads: int | None = None  # torch's; None of runs before it was recorded


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
        if is_main() and has_adapters(self.policy.hf_model):
            save_adapters(self.policy.hf_model, directory / "adapter")
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
        barrier()
        if is_main():
            write_state(directory, state)

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


def write_state(directory: Path, state: TrainState) -> None:
    """state.json, with the SHA-256 of every other file of the checkpoint and of the state."""
    expected = digests(directory)
    content = asdict(state) | {"sha256": expected}
    expected[STATE] = _digest_of(content)
    (directory / STATE).write_text(json.dumps(content))


def read_newest_state(run: RunDir) -> TrainState | None:
    """Where the newest whole checkpoint stands, for `Models.load_state`; None without one.

    One with a file that is missing, cut off or altered is passed over, which is said in a line.
    Raises `UserError` where every checkpoint is damaged, and where another number of processes
    wrote the optimizers' shards: a rank that found that out alone, in the middle of a load, would
    leave the others waiting.
    """
    damages: list[str] = []
    for iteration in reversed(checkpoint_iterations(run)):
        directory = run.checkpoint_path(iteration)
        try:
            state, expected = _read_state(directory)
            if state.num_ranks != num_ranks():
                raise UserError(
                    f"{directory} was written by {state.num_ranks} processes, which must also go "
                    f"on with it, got {num_ranks()}"
                )
            _check_files(directory, expected, state.num_ranks)
        except _DamagedError as error:
            damages.append(str(error))
            continue
        if damages:
            logger.warning(f"vineppo: {damages[0]}: going on from {directory}")
        return state
    if damages:
        raise UserError(
            f"{damages[0]}, and no checkpoint before it is whole: remove {run.checkpoints_path} "
            "to begin again from the start"
        )
    return None


def set_aside_after(run: RunDir, iteration: int) -> None:
    """Renames the checkpoints after `iteration`, which were passed over: the run writes them anew.

    `checkpoints/damaged_iter_000010` is the user's to look at and to remove.
    """
    for later in checkpoint_iterations(run):
        if later > iteration:
            path = run.checkpoint_path(later)
            aside = path.with_name(DAMAGED + path.name)
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(path, aside)


def check_model(directory: Path) -> None:
    """Raises `UserError` for a file of `checkpoints/iter_…/policy`, say, that has been altered.

    What has no digests is taken as it is: `final/`, and checkpoints of older runs.
    """
    try:
        expected = json.loads((directory.parent / STATE).read_text()).get("sha256", {})
    except FileNotFoundError:
        return
    except ValueError as error:
        raise UserError(f"{directory.parent / STATE} is damaged ({error})") from None
    prefix = f"{directory.name}/"
    mine = {name: digest for name, digest in expected.items() if name.startswith(prefix)}
    damage = first_damage(directory.parent, mine)
    if damage is not None:
        raise UserError(damage)


class _DamagedError(Exception):
    """What is wrong with a checkpoint, in a line that names the file."""


def _read_state(directory: Path) -> tuple[TrainState, dict[str, str]]:
    """With the digests of the other files, of which older runs have none."""
    try:
        content = json.loads((directory / STATE).read_text())
        own = content.get("sha256", {}).pop(STATE, None)
        if own not in (None, _digest_of(content)):
            raise ValueError("its SHA-256 has changed")
        expected = content.pop("sha256", {})
        state = TrainState(**content)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise _DamagedError(f"{directory / STATE} is damaged ({error})") from None
    return state, expected


def _digest_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _check_files(directory: Path, expected: dict[str, str], num_shards: int) -> None:
    """By their digests, and by what shows without them."""
    damage = first_damage(directory, expected)
    if damage is not None:
        raise _DamagedError(damage)
    trainer = directory / "trainer"
    shards = Counter(file.parent.parent for file in sorted(trainer.rglob("*optim_states.pt")))
    for model, there in shards.items():  # without any it is in the model's own file
        if there != num_shards:
            raise _DamagedError(f"{model} has {there} of the {num_shards} shards of its optimizer")
    files = sorted(trainer.rglob("*.pt"))
    if not files:
        raise _DamagedError(f"{trainer} is missing or empty")
    for file in files:
        if not zipfile.is_zipfile(file):
            raise _DamagedError(f"{file} is damaged (cut off)")


def write_whole(target: Path, write: Callable[[Path], object]) -> None:
    """`write` fills a temporary directory, which is synced and then renamed to `target`.

    All ranks take part in `write`; one of every machine syncs, as a machine can sync only what it
    wrote itself; the main one does the rest. Raises `UserError` with the system's reason where it
    refuses: a full disk, a quota, a directory that has become read-only.
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
    """The system's reason; None where it is the writer's error.

    torch and safetensors report a full disk as errors of their own. The latter's text has the
    number; else it is asked again.
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
