"""The config of a run, read back as it was resolved, with what its version lacked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vineppo.config.load import assign, evaluate_jsonnet, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.run_dir.directory import RunDir
from vineppo.run_dir.older import with_added_keys

RUN_TASK_KEYS = ("prompt", "too_long", "response_template", "grading")


def read_config(
    directory: Path, assignments: Sequence[str] = (), task_path: str | None = None
) -> TrainConfig | SftConfig:
    """The config of a run with the problems of a task file, then the assignments, applied."""
    run = RunDir(directory)
    if not run.config_path.is_file():
        raise UserError(f"not a run directory (no config.json): {directory}")
    resolved = with_added_keys(run.read_config())
    if task_path is not None:
        kept = {key: resolved["task"][key] for key in RUN_TASK_KEYS}
        resolved["task"] = kept | evaluate_jsonnet(task_path)
        if resolved["model"].get("architecture") is not None:
            # The policies are the run's checkpoints, tokenizer and all, however they began.
            resolved["model"] |= {"architecture": None, "path": str(run.path)}
        try:
            _parse(resolved)
        except UserError as error:
            raise UserError(f"{task_path}: {error}") from None
    for assignment in assignments:
        assign(resolved, assignment)
    return _parse(resolved)


def _parse(resolved: dict[str, Any]) -> TrainConfig | SftConfig:
    if "rollouts" in resolved:
        return parse_config(TrainConfig, resolved)
    return parse_config(SftConfig, resolved)
