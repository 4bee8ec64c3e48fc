"""The embedded policy under DeepSpeed."""

from dataclasses import replace

from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.update import update_policy

MODEL = "embedded:arithmetic_short"


def build(config, dtype="float32", **changes):
    changes = {"learning_rate": 1e-3, "max_mean_ratio": None, **changes}
    config = replace(
        config, optimization=replace(config.optimization, **changes), num_iterations=10, seed=0
    )
    loaded = load_model(MODEL, dtype, "sdpa")
    return Policy(loaded, config.optimization, gradient_checkpointing=False), config


def update(policy, found, config, iteration=1):
    return update_policy(policy, found, [], None, config, iteration, config.reference.kl_coef)


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()
