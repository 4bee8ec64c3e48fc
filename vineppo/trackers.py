"""Where metrics go beside `metrics.jsonl`: wandb, Trackio, TensorBoard, as `logging` says."""

import hashlib
import importlib
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from vineppo.config.load import to_dict
from vineppo.config.schema import AnyConfig
from vineppo.distributed import is_main
from vineppo.errors import UserError


class Trackers:
    """All that `logging` asks for, on the main rank, with `metrics.jsonl`'s names.

    A run that goes on after `iteration` goes on in each: wandb passes over iterations that it has,
    TensorBoard forgets those after `iteration`, Trackio keeps both versions of one done twice.
    """

    def __init__(self, config: AnyConfig, directory: Path, iteration: int) -> None:
        self._stack = ExitStack()
        self._modules: dict[Any, Any] = {}  # what has logged to what
        self._tensorboard: Any = None
        if not is_main():
            return
        logging = config.logging
        # One id a run directory, so that the pieces of a resumed run are one run.
        identity = hashlib.blake2b(str(directory.resolve()).encode(), digest_size=8).hexdigest()
        known: dict[str, Any] = {"config": to_dict(config), "resume": "allow"}
        if logging.wandb_project is not None:
            os.environ.setdefault("WANDB_MODE", "offline")
            os.environ.setdefault("WANDB_SILENT", "true")
            wandb = importlib.import_module("wandb")
            # Else processes started later share this one's service, and its ids.
            self._stack.callback(wandb.teardown)
            names = {"project": logging.wandb_project, "name": config.name, "id": identity}
            self._start(wandb, **names, dir=str(directory), **known)
        if logging.trackio_project is not None:
            trackio = importlib.import_module("trackio")
            names = {"project": logging.trackio_project, "name": f"{config.name}_{identity}"}
            self._start(trackio, **names, embed=False, **known)
        if logging.tensorboard:
            tensorboard = importlib.import_module("torch.utils.tensorboard")
            purge = iteration + 1 if iteration else None
            self._tensorboard = tensorboard.SummaryWriter(
                str(directory / "tensorboard"), purge_step=purge
            )
            self._stack.callback(self._tensorboard.close)

    def _start(self, module: Any, **about: Any) -> None:
        run = module.init(**about)
        self._stack.callback(run.finish)
        self._modules[run] = module

    def __enter__(self) -> "Trackers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def log(self, metrics: dict[str, Any]) -> None:
        for run in self._modules:
            run.log(metrics, step=metrics["iteration"])
        if self._tensorboard is not None:
            for name, number in metrics.items():
                if isinstance(number, int | float):
                    self._tensorboard.add_scalar(name, number, metrics["iteration"])

    def log_histograms(self, arrays: Mapping[str, Sequence[float]], iteration: int) -> None:
        """One histogram a name, of the finite numbers; a name without any is left out."""
        finite = {name: [x for x in xs if math.isfinite(x)] for name, xs in arrays.items()}
        finite = {name: xs for name, xs in finite.items() if xs}
        for run, module in self._modules.items():
            run.log({name: module.Histogram(xs) for name, xs in finite.items()}, step=iteration)
        if self._tensorboard is not None:
            for name, xs in finite.items():
                self._tensorboard.add_histogram(name, np.array(xs), iteration)


def check_installed(config: AnyConfig) -> None:
    """Raises `UserError` for a tracker that is asked for and is not there; before a model loads."""
    logging = config.logging
    for name, key, is_asked in (
        ("wandb", "wandb_project", logging.wandb_project is not None),
        ("trackio", "trackio_project", logging.trackio_project is not None),
        ("tensorboard", "tensorboard", logging.tensorboard),
    ):
        if is_asked and find_spec(name) is None:
            raise UserError(f"logging.{key} needs the package {name}, which is not installed")
