"""Configs of runs that were made before a key was added, brought up to the schema of today."""

from typing import Any

# (dotted key, what older runs did). The table is left alone where it is null or has another kind.
ADDED_KEYS: tuple[tuple[str, Any], ...] = (
    ("model.lora", None),
    ("task.too_long", "refuse"),
    ("task.grading.reward_path", None),
    ("engine.tensor_parallel_size", 1),
    ("optimization.offload", "nothing"),
    ("critic.offload", "nothing"),
)
ONLY_OF_KIND = {"engine.tensor_parallel_size": "vllm", "critic.offload": "separate"}


def with_added_keys(resolved: dict[str, Any]) -> dict[str, Any]:
    """`resolved` with the keys that it is too old to have; in place."""
    for dotted, value in ADDED_KEYS:
        *parents, last = dotted.split(".")
        table: Any = resolved
        for key in parents:
            table = table.get(key) if isinstance(table, dict) else None
        if not isinstance(table, dict):
            continue
        if ONLY_OF_KIND.get(dotted, table.get("kind")) == table.get("kind"):
            table.setdefault(last, value)
    return resolved
