"""Weights & Biases, offline unless WANDB_MODE says otherwise."""

import hashlib
import os
from pathlib import Path
from typing import Any

from vineppo.config.load import to_dict
from vineppo.config.schema import SftConfig, TrainConfig


class WandbLog:
    """The same names as `metrics.jsonl`; nothing at all where `logging.wandb_project` is null."""

    def __init__(self, config: TrainConfig | SftConfig, directory: Path) -> None:
        self._run: Any = None
        if config.logging.wandb_project is None:
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
            self._run.finish()

    def log(self, metrics: dict[str, Any]) -> None:
        if self._run is not None:
            self._run.log(metrics, step=metrics["iteration"])
