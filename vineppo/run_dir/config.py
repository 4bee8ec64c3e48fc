"""The config that a run started with, completed and compared."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vineppo.config.load import assign, complete, evaluate_jsonnet, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError

ANY, MISSING = object(), object()
# What a table of an older run holds, and what replaces it. A value that is given goes, and
# `ANY` stays. A removed key with another value is refused like an unknown one.
CHANGES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("logging", {"trackio_project": None}, {}),
    ("logging", {"tensorboard": False}, {}),
    ("engine", {"prefix_caching": True}, {}),
    ("engine", {"sleep_while_training": "auto"}, {"sleep_while_training": True}),
    ("engine", {"tensor_parallel_size": 1}, {}),
    ("engine", {"kind": "vllm", "tensor_parallel_size": ANY}, {"kind": "vllm_sharded"}),
    ("credit", {"segment_max_prob": None}, {}),
    ("credit", {"bootstrap_truncated": False}, {}),
    ("credit", {"bootstrap_truncated": True, "kind": "gae"}, {"kind": "gae_bootstrapped"}),
    ("critic", {"view": None}, {}),
    ("critic", {"kind": "separate", "view": ANY}, {"kind": "informed"}),
    ("values.predictors.*", {"view": None}, {}),
    ("values.predictors.*", {"kind": "separate", "view": ANY}, {"kind": "informed"}),
    ("model.lora", {"kind": MISSING}, {"kind": "lora"}),
    ("reward_model", {"kind": MISSING}, {"kind": "reward_model"}),
    ("self_training", {"kind": MISSING}, {"kind": "self_training"}),
)
RUN_TASK_KEYS = ("prompt", "too_long", "response_template", "grading", "environment")


def with_added_keys(resolved: dict[str, Any]) -> dict[str, Any]:
    """The config of an older run with the keys of today."""
    for path, old, new in CHANGES:
        for table in _tables(resolved, path.split(".")):
            given = {key: value for key, value in old.items() if value is not ANY}
            found = {key: table.get(key, MISSING) for key in given}
            if found == given and all(key in table for key in old.keys() - given):
                for key in given:
                    table.pop(key, None)
                table |= new
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
