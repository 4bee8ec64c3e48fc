"""What each estimator's advantages cost on given rollouts: see `gradient_variance/costs.py`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from analysis.gradient_variance.costs import learning_seconds, seconds_per_token
from analysis.sampling.estimators import Estimator
from analysis.sampling.saved import SavedRollout
from vineppo.config.schema import GaeCredit, RemaxCredit, TrainConfig
from vineppo.run_dir import RunDir


@dataclass(frozen=True)
class Rates:
    """Seconds of a sampled token, and of learning a problem without and with a critic.

    NaN where the run logged no times.
    """

    per_token_s: float
    without_critic_s: float
    with_critic_s: float


def read_rates(run_path: Path, config: TrainConfig, critic_share: float) -> Rates:
    run = RunDir(run_path)
    metrics = run.read_metrics() if (run_path / "metrics.jsonl").exists() else []
    per_token = seconds_per_token(metrics)
    learning = learning_seconds(metrics, config.rollouts.num_prompts)
    learning = math.nan if learning is None else learning
    return Rates(
        per_token_s=math.nan if per_token is None else per_token,
        without_critic_s=learning * (1 - critic_share),
        with_critic_s=learning,
    )


def sampled_tokens(
    groups: Sequence[Sequence[SavedRollout]],
    estimators: Sequence[Estimator],
    greedy_tokens: Mapping[str, int],
) -> np.ndarray:
    """Of every estimator and problem, [E, N]: the rollouts, and what was sampled besides."""
    return np.array(
        [[_tokens(estimator, group, greedy_tokens) for group in groups] for estimator in estimators]
    )


def seconds(tokens_EN: np.ndarray, estimators: Sequence[Estimator], rates: Rates) -> np.ndarray:
    """[E, N]; learning costs every problem the same."""
    learning_E = [
        rates.with_critic_s if isinstance(one.credit, GaeCredit) else rates.without_critic_s
        for one in estimators
    ]
    return tokens_EN * rates.per_token_s + np.array(learning_E)[:, None]


def _tokens(
    estimator: Estimator, group_G: Sequence[SavedRollout], greedy_tokens: Mapping[str, int]
) -> float:
    total = float(sum(len(one.rollout.response_ids) for one in group_G))
    if estimator.num_continuations:
        values = [value for one in group_G for value in one.values_S or ()]
        total += sum(map(estimator.tokens_of, values))
    if isinstance(estimator.credit, RemaxCredit):
        total += greedy_tokens[group_G[0].rollout.problem.id]
    return total
