"""What an estimator costs, per problem, in sampled tokens and in seconds of the run's machine.

Tokens are counted: those of the rollouts, and for vine with K the share K/K' of the tokens that the
K' continuations of each state took. Seconds are read from the run's metrics, which time phases, not
estimators, so they are divided:

    seconds = tokens · (s per sampled token) + (s of learning per problem) [− the critic's share]

Both rates are medians over the run's iterations. A token of a rollout and of a continuation count
alike, since both are sampled in one stream. Learning is `time/logprobs_s`, `time/update_s` and
`time/sync_s`; where the run has a value model of its own, its share of them (`critic_share`) is
charged to the estimators that use a critic alone. Evaluation and checkpoints cost nothing here.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from vineppo.config.schema import SeparateCritic, TrainConfig

SAMPLING = ("time/rollout_s", "time/values_s", "time/grading_s")
SAMPLED = ("tokens/rollout", "tokens/values")
LEARNING = ("time/logprobs_s", "time/update_s", "time/sync_s")
UPDATE_PASSES = 3  # a forward pass, and a backward pass that costs two of them


def seconds_per_token(metrics: Sequence[Mapping[str, Any]]) -> float | None:
    """Of sampling and grading: 10 s for 1,000 tokens of rollouts and 4,000 of values are 2 ms.

    None where no iteration logged them all.
    """
    rates = []
    for row in metrics:
        times, tokens = _total(row, SAMPLING), _total(row, SAMPLED)
        if times is not None and tokens:
            rates.append(times / tokens)
    return median(rates) if rates else None


def learning_seconds(metrics: Sequence[Mapping[str, Any]], num_prompts: int) -> float | None:
    """Per problem, of all models that the run trains. None where no iteration logged them all."""
    totals = [_total(row, LEARNING) for row in metrics]
    known = [total for total in totals if total is not None]
    return median(known) / num_prompts if known else None


def critic_share(config: TrainConfig, num_policy_weights: int, num_critic_weights: int) -> float:
    """Of the time of learning, by the passes of each model times its weights.

    The policy has 2 passes without gradient (its own and the reference's) and 3 an epoch, a value
    model of its own 1 and 3 an epoch. With 2 epochs each and equal sizes: 7/(8 + 7) = 0.467. 0
    without a value model of its own: a shared head is hardly more than its policy.
    """
    if not isinstance(config.critic, SeparateCritic):
        return 0.0
    policy = (2 + UPDATE_PASSES * config.optimization.num_epochs) * num_policy_weights
    critic = (1 + UPDATE_PASSES * config.critic.num_epochs) * num_critic_weights
    return critic / (policy + critic)


def _total(row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    numbers = [row.get(name) for name in names]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(names) else None
