"""The embedded policy under DeepSpeed, and sequences that an update of it is made of."""

import random
from dataclasses import replace

from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.trainer import update_policy
from vineppo.types import TrainSequence

MODEL = "embedded:arithmetic_short"


def sequences(count, seed=0, num_ids=15):
    """Random tokens of random lengths, off-policy enough for the clip to bite."""
    stream = random.Random(seed)
    found = []
    for _ in range(count):
        lengths = stream.randrange(3, 9), stream.randrange(4, 30)
        prompt, response = (tuple(stream.randrange(num_ids) for _ in range(n)) for n in lengths)
        old, ref = (tuple(stream.uniform(-4, 0) for _ in response) for _ in range(2))
        advantages = tuple(stream.gauss(0, 1) for _ in response)
        values, returns = (tuple(stream.gauss(0, 1) for _ in response) for _ in range(2))
        found.append(
            replace(
                TrainSequence.blank(prompt, response),
                old_logprobs_T=old,
                ref_logprobs_T=ref,
                advantages_T=advantages,
                is_trained_T=tuple(stream.random() < 0.8 for _ in response),
                importance_T=tuple(stream.uniform(0, 2) for _ in response),
                old_values_T=values,
                returns_T=returns,
                is_positive=stream.random() < 0.5,
            )
        )
    return found


def build(config, dtype="float32", **changes):
    changes = {"learning_rate": 1e-3, "max_mean_ratio": None, **changes}
    config = replace(
        config, optimization=replace(config.optimization, **changes), num_iterations=10, seed=0
    )
    loaded = load_model(MODEL, dtype, "sdpa")
    return Policy(loaded, config.optimization, gradient_checkpointing=False), config


def update(policy, found, config, iteration=1):
    return update_policy(policy, found, None, config, iteration, config.reference.kl_coef)


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()
