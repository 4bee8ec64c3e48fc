"""The `critic` of a config whose values are a head on the policy's backbone; no leaf ships one."""

from typing import Any

SQUARED = {"kind": "squared_error", "clip": None}


def shared_critic(head_learning_rate: float = 1e-3, **changes: Any) -> dict[str, Any]:
    plain = {
        "kind": "shared",
        "coef": 0.5,
        "head_learning_rate": head_learning_rate,
        "warmup_iterations": 0,
        "head_init": "normal",
        "loss": SQUARED,
    }
    return plain | changes
