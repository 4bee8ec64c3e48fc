"""Updates that are not applied: their metrics, and that the next ones do not notice."""

import math
from dataclasses import replace

import pytest
import torch
from support.grids import grid
from support.policies import build, relative, update
from support.rollouts import random_sequences, with_column

from vineppo.batching import micro_batches
from vineppo.token_scores import ForwardOptions

SIZES = {"batch_size": 8, "micro_batch_size": 4, "num_epochs": 1}
STATES = grid(
    ("float32", "nothing", 0),
    ("float32", "nothing", 3),
    ("float32", "optimizer", 2),
    ("bfloat16", "nothing", 0),
    ("bfloat16", "nothing", 2),
    slow=[
        *(("float32", "nothing", stage) for stage in (1, 2)),
        *(("float32", "optimizer", stage) for stage in (1, 3)),
        *(("bfloat16", "nothing", stage) for stage in (1, 3)),
        *(("bfloat16", "optimizer", stage) for stage in (1, 2, 3)),
    ],
)


pytestmark = pytest.mark.usefixtures("sharded")


def weights_of(policy):
    return torch.cat([w.flatten().clone() for _, w in policy.named_weights()])


def skip_for_its_ratio(policy, found, config):
    guarded = replace(config, optimization=replace(config.optimization, max_mean_ratio=1e-6))
    metrics = update(policy, found, guarded)
    assert metrics["policy/skipped_updates"] == config.optimization.num_epochs
    assert math.isnan(metrics["policy/grad_norm"])


def skip_for_its_loss(policy, found, config):
    broken = [with_column(s, "loss_advantages", math.nan) for s in found]
    metrics = update(policy, broken, config)
    assert metrics["policy/skipped_updates"] == config.optimization.num_epochs


def skip_for_its_gradient(policy, found, config):
    batches = micro_batches(found, (), config.optimization.micro_batch_size, policy.device)
    done = policy.update(batches, flawed, ForwardOptions(1.0), [1e-3], lambda _: True)
    assert [stats["loss"] for stats in done.stats] == [0.0] * len(batches)
    assert done.grad_norm is None


def flawed(_, scores):
    """√(0 · x): 0, with the derivative ∞ · 0."""
    loss = (0 * scores.logprobs_BT.sum()).sqrt()
    return loss, {"loss": loss}


@pytest.mark.parametrize(("dtype", "offload", "stage"), STATES)
def test_a_skipped_update_leaves_no_trace(config, dtype, offload, stage):
    """Not in the weights, and not in the updates before and after it."""
    found, outlier = random_sequences(8), random_sequences(8, seed=1)
    skips = skip_for_its_ratio, skip_for_its_loss, skip_for_its_gradient
    weights = []
    for is_skipping in (False, True):
        policy, changed = build(config, dtype, **SIZES, zero_stage=stage, offload=offload)
        for iteration, skip in enumerate(skips, start=1):
            before = weights_of(policy)
            if is_skipping:
                skip(policy, outlier, changed)
                assert torch.equal(weights_of(policy), before), skip
            update(policy, found, changed, iteration)
            assert not torch.equal(weights_of(policy), before)
        weights.append(weights_of(policy))
    assert relative(*weights) < 1e-7
