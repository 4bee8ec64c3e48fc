"""The cost of every estimator, per problem: sampled tokens, seconds of the run's machine.

    seconds = tokens · (s per sampled token) + (s of learning per problem) [− the critic's share]

Tokens are counted. Both rates are medians over the run's iterations. The share of a separate value
model (`critic_share`) is charged to estimators that use it.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from analysis.sampling.advantages import Estimator
from vineppo.config.schema import TrainConfig
from vineppo.types import CRITIC, Rollout

SAMPLING = ("time/rollout_s", "time/values_s", "time/grading_s")
SAMPLED = ("tokens/rollout", "tokens/values")
LEARNING = ("time/logprobs_s", "time/update_s", "time/sync_s")
UPDATE_PASSES = 3  # a forward pass, and a backward pass that costs two of them

Metrics = Sequence[Mapping[str, Any]]


def sampled_tokens(
    groups_E: Sequence[Sequence[Sequence[Rollout]]],
    estimators: Sequence[Estimator],
    greedy_tokens: Mapping[str, int],
) -> np.ndarray:
    """Sampled tokens of every estimator and problem, [E, N]: its rollouts, and those besides."""

    def tokens_of(estimator: Estimator, group: Sequence[Rollout]) -> float:
        rollouts = sum(sum(estimator.credit.sampled_tokens(one)) for one in group)
        greedy = greedy_tokens.get(group[0].problem.id, 0) if estimator.credit.samples_greedy else 0
        return rollouts + greedy + sum(map(estimator.tokens_of, group))

    pairs = zip(estimators, groups_E, strict=True)
    return np.array([[tokens_of(one, group) for group in groups] for one, groups in pairs], float)


def seconds(
    tokens_EN: np.ndarray,
    estimators: Sequence[Estimator],
    metrics: Metrics,
    config: TrainConfig,
    critic_share: float,
) -> np.ndarray:
    """[E, N]; learning costs every problem the same. NaN where the run does not tell."""
    learning_s = learning_seconds(metrics, config)
    shares_E = [1.0 if one.values_from == CRITIC else 1 - critic_share for one in estimators]
    return tokens_EN * seconds_per_token(metrics) + learning_s * np.array(shares_E)[:, None]


def seconds_per_token(metrics: Metrics) -> float:
    """Sampling and grading: 10 s for 1,000 tokens of rollouts and 4,000 of values are 2 ms.

    NaN where no iteration logged them all.
    """
    rates = []
    for row in metrics:
        times, tokens = _total(row, SAMPLING), _total(row, SAMPLED)
        if times is not None and tokens:
            rates.append(times / tokens)
    return median(rates) if rates else math.nan


def learning_seconds(metrics: Metrics, config: TrainConfig) -> float:
    """Per problem, of policy and critic.

    NaN where no iteration logged all times, and where further predictors train models: a run does
    not log their times separately.
    """
    if any(model.learns for key, model in config.value_models.items() if key != CRITIC):
        return math.nan
    totals = [_total(row, LEARNING) for row in metrics]
    known = [total for total in totals if total is not None]
    return median(known) / config.rollouts.num_prompts if known else math.nan


def critic_share(config: TrainConfig, num_policy_weights: int, num_critic_weights: int) -> float:
    """The critic's share of learning time, by the passes of each model times its weights.

    The policy has 2 passes without gradient (its own, and any reference's) and 3 an epoch; a
    separate value model has 1 and 3 an epoch. With 2 epochs and equal sizes: 7/(8 + 7) = 0.467.
    0 without a separate value model: a shared head costs hardly more than its policy.
    """
    model = config.value_models.get(CRITIC)
    if model is None:
        return 0.0
    scored = 1 + (config.reference.kl_estimator is not None)
    policy = (scored + UPDATE_PASSES * config.optimization.num_epochs) * num_policy_weights
    critic = (1 + UPDATE_PASSES * model.num_epochs) * num_critic_weights
    return critic / (policy + critic)


def _total(row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    numbers = [row.get(name) for name in names]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(names) else None
