"""wandb, beside `metrics.jsonl`, where `logging.wandb_project` names a project."""

import hashlib
import importlib
import os
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vineppo.config.load import to_dict
from vineppo.config.schema import AnyConfig
from vineppo.distributed import is_main
from vineppo.errors import UserError


class Tracker:
    """A wandb run of the main rank, with the names of `metrics.jsonl`; offline by default.

    A resumed run continues it: wandb skips iterations that it already has.
    """

    def __init__(self, config: AnyConfig, directory: Path) -> None:
        self._stack = ExitStack()
        self._run: Any = None
        project = config.logging.wandb_project
        if project is None or not is_main():
            return
        os.environ.setdefault("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_SILENT", "true")
        self._wandb = importlib.import_module("wandb")
        # Otherwise processes that start later would share this one's service and its ids.
        self._stack.callback(self._wandb.teardown)
        # One id a run directory, so that the pieces of a resumed run are one run.
        identity = hashlib.blake2b(str(directory.resolve()).encode(), digest_size=8).hexdigest()
        self._run = self._wandb.init(
            project=project, name=config.name, id=identity, resume="allow",
            dir=str(directory), config=to_dict(config),
        )  # fmt: skip
        self._stack.callback(self._run.finish)

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def log(self, metrics: dict[str, Any]) -> None:
        if self._run is not None:
            self._run.log(metrics, step=metrics["iteration"])


def check_installed(config: AnyConfig) -> None:
    """Raises `UserError` if wandb is asked for and missing; before a model loads."""
    if config.logging.wandb_project is not None and find_spec("wandb") is None:
        raise UserError("logging.wandb_project needs the package wandb, which is not installed")
