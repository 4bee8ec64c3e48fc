"""Weights & Biases, offline unless WANDB_MODE says otherwise."""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vineppo.config.load import to_dict
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.distributed import is_main


class WandbLog:
    """The same names as `metrics.jsonl`; nothing at all where `logging.wandb_project` is null."""

    def __init__(self, config: TrainConfig | SftConfig, directory: Path) -> None:
        self._run: Any = None
        if config.logging.wandb_project is None or not is_main():
            return
        os.environ.setdefault("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_SILENT", "true")
        import wandb

        # One id a run directory, so that the pieces of a resumed run are one run when synced.
        identity = hashlib.blake2b(str(directory.resolve()).encode(), digest_size=8).hexdigest()
        self._run = wandb.init(
            project=config.logging.wandb_project,
            name=config.name,
            id=identity,
            dir=str(directory),
            config=to_dict(config),
            resume="allow",
        )

    def __enter__(self) -> "WandbLog":
        return self

    def __exit__(self, *_: object) -> None:
        if self._run is not None:
            import wandb

            self._run.finish()
            wandb.teardown()  # else processes started later share this one's service, and its ids

    def log(self, metrics: dict[str, Any]) -> None:
        if self._run is not None:
            self._run.log(metrics, step=metrics["iteration"])

    def log_histograms(self, arrays: Mapping[str, Sequence[float]], iteration: int) -> None:
        """One histogram a name, of the finite numbers; a name without any is left out."""
        if self._run is None:
            return
        import wandb

        finite = {name: [x for x in xs if math.isfinite(x)] for name, xs in arrays.items()}
        histograms = {name: wandb.Histogram(xs) for name, xs in finite.items() if xs}
        self._run.log(histograms, step=iteration)
