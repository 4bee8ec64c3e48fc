"""Configs of runs that were made before a key was added, brought up to the schema of today."""

from copy import deepcopy
from typing import Any

# (dotted key, what older runs did, a key that the same table has had from the start).
ADDED_KEYS: tuple[tuple[str, Any, str], ...] = (
    ("model.lora", None, "dtype"),
    ("task.too_long", "refuse", "response_template"),
    ("task.grading.reward_path", None, "extraction"),
    ("engine.tensor_parallel_size", 1, "block_size"),
    ("optimization.offload", "nothing", "zero_stage"),
    ("values", {"credit": None, "predictors": {}}, "rollouts"),
    ("critic.offload", "nothing", "zero_stage"),
)


def with_added_keys(resolved: dict[str, Any]) -> dict[str, Any]:
    """`resolved` with the keys that it is too old to have; in place."""
    for dotted, value, sibling in ADDED_KEYS:
        *parents, last = dotted.split(".")
        table: Any = resolved
        for key in parents:
            table = table.get(key) if isinstance(table, dict) else None
        if isinstance(table, dict) and sibling in table:
            table.setdefault(last, deepcopy(value))
    return resolved
