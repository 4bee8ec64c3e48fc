"""The config that a run started with, completed and compared."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vineppo.config.load import assign, complete, evaluate_jsonnet, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError

# Keys that were removed later, and the value of runs that did not use them, which is dropped. Any
# other value is refused like an unknown key.
REMOVED_KEYS: tuple[tuple[str, Any], ...] = (
    ("logging.trackio_project", None),
    ("logging.tensorboard", False),
    ("engine.prefix_caching", True),
    ("engine.tensor_parallel_size", 1),
    ("credit.segment_max_prob", None),
    ("critic.view", None),
    ("values.predictors.*.view", None),
    ("pairs.margin_field", None),
)
RUN_TASK_KEYS = ("prompt", "too_long", "response_template", "grading", "environment")
MISSING = object()


def with_added_keys(resolved: dict[str, Any]) -> dict[str, Any]:
    """The config of an older run with the keys of today."""
    for dotted, unused in REMOVED_KEYS:
        *parents, last = dotted.split(".")
        for table in _tables(resolved, parents):
            if table.get(last, MISSING) == unused:
                del table[last]
    for name in ("reward_model", "self_training"):  # these had no kind
        if unnamed := resolved.get(name):
            unnamed.setdefault("kind", name)
    if lora := resolved.get("model", {}).get("lora"):
        lora.setdefault("kind", "lora")
    for table in _tables(resolved, ["critic"]) + _tables(resolved, ["values", "predictors", "*"]):
        if table.get("kind") == "separate" and "view" in table:
            table["kind"] = "informed"
    credit = resolved.get("credit", {})
    if credit.pop("bootstrap_truncated", False):
        credit["kind"] = "gae_bootstrapped"
    engine = resolved.get("engine", {})
    if engine.get("sleep_while_training") == "auto":
        engine["sleep_while_training"] = True  # sleeping always fits
    if engine.get("kind") == "vllm" and engine.get("tensor_parallel_size", 1) > 1:
        engine["kind"] = "vllm_sharded"
    if engine.get("kind") == "vllm" and engine.get("num_processes", 1) > 1:
        engine["kind"] = "vllm_processes"
    elif engine.get("kind") == "vllm":
        engine.pop("num_processes", None)
    return complete(resolved)


def _tables(node: Any, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The tables at a path of keys; "*" is any key."""
    if not isinstance(node, dict):
        return []
    if not keys:
        return [node]
    children = node.values() if keys[0] == "*" else [node.get(keys[0])]
    return [table for child in children for table in _tables(child, keys[1:])]


def read_config(
    directory: Path, assignments: Sequence[str] = (), task_path: str | None = None
) -> TrainConfig | SftConfig:
    """The config of a run with the problems of a task file, then the assignments, applied."""
    from vineppo.run_dir import read_json  # which imports this module

    path = directory / "config.json"
    if not path.is_file():
        raise UserError(f"not a run directory (no config.json): {directory}")
    resolved = with_added_keys(read_json(path))
    if "pairs" in resolved:
        raise UserError(f"{directory} is a run of `vineppo reward-model`, which holds no policy")
    if task_path is not None:
        kept = {key: resolved["task"][key] for key in RUN_TASK_KEYS}
        resolved["task"] = kept | evaluate_jsonnet(task_path)
        if resolved["model"].get("architecture") is not None:
            # The policies are the run's checkpoints, tokenizer and all, however they began.
            resolved["model"] |= {"architecture": None, "path": str(directory)}
        try:
            _parse(resolved)
        except UserError as error:
            raise UserError(f"{task_path}: {error}") from None
    for assignment in assignments:
        assign(resolved, assignment)
    return _parse(resolved)


def _parse(resolved: dict[str, Any]) -> TrainConfig | SftConfig:
    if "credit" in resolved:
        return parse_config(TrainConfig, resolved)
    return parse_config(SftConfig, resolved)


def first_difference(there: Any, here: Any, key: str = "") -> tuple[str, str, str] | None:
    """The first dotted key that differs between two configs, with both values ("missing" is one).

    >>> first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    ('a.c', '2', '3')
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for name in here | there:
            dotted = f"{key}.{name}" if key else name
            pair = there.get(name, MISSING), here.get(name, MISSING)
            if difference := first_difference(*pair, dotted):
                return difference
        return None
    shown = ["missing" if value is MISSING else json.dumps(value) for value in (there, here)]
    return None if there == here else (key, shown[0], shown[1])
