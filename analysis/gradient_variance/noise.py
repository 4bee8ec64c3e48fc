"""What the gradients of a table come to: noise, its price, and each estimator against the first.

Of n problems the mean gradient has the variance tr Σ/n and the signal to noise n·|E g|²/tr Σ, and
they cost n·c, with c the sampled tokens or the seconds of a problem. So a budget B buys a variance
of tr Σ·c/B, the price of variance being tr Σ·c, and a signal to noise of B·|E g|²/(tr Σ·c).

Traces compare estimators whose gradients have one mean, as those of vine, RLOO, REINFORCE, ReMax
and GAE with λ = 1 have. GRPO divides by the deviation of the rewards: only what is free of scale is
comparable, the signal to noise, the noise scale and the cosine. These need enough problems to see
the signal: of fewer their intervals reach to 0 and below, or are undefined.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.gradient_variance.table import GradientTable
from analysis.old_tables import finite
from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, bootstrap_weights
from analysis.stats.gradient_noise import GradientNoise, noise_from_gram

NUM_RESAMPLES = 2000
WITH_RATIO = ("trace", "trace_tokens", "trace_time", "signal", "signal_per_token", "signal_per_s")


@dataclass(frozen=True)
class NoiseRow:
    """A number of one estimator with its 95 % interval over problems, None where undefined."""

    run: str
    method: str
    seed: int
    checkpoint: int
    rollout_iteration: int
    num_problems: int
    estimator: str
    quantity: str
    value: float | None
    low: float | None
    high: float | None

    @property
    def group(self) -> tuple[str, int]:
        """Run and checkpoint."""
        return self.run, self.checkpoint


def noise_rows(table: GradientTable) -> list[NoiseRow]:
    """Every quantity of every estimator; problems are resampled, for all estimators the same."""
    estimates = bootstrap_weights(
        lambda weights_N: numbers(table, weights_N),
        table.problem_ids,
        np.random.default_rng(BOOTSTRAP_SEED),
        num_resamples=NUM_RESAMPLES,
        level=LEVEL,
    )
    return [
        NoiseRow(
            run=table.run,
            method=table.method,
            seed=table.seed,
            checkpoint=table.checkpoint,
            rollout_iteration=table.rollout_iteration,
            num_problems=len(table.problem_ids),
            estimator=name.partition("/")[0],
            quantity=name.partition("/")[2],
            value=finite(estimate.value),
            low=finite(estimate.low),
            high=finite(estimate.high),
        )
        for name, estimate in estimates.items()
    ]


def numbers(table: GradientTable, weights_N: np.ndarray) -> Mapping[str, float]:
    """`"estimator/quantity"` with problem i counting `weights_N[i]` times.

    trace, squared_norm     tr Σ of a problem's gradient, and |E g|²
    signal_to_noise         |E g|²/(tr Σ/N) of the table's N problems
    noise_scale             tr Σ/|E g|², the problems at which the signal is as large as the noise
    num_tokens, time_s      c: sampled tokens and seconds of a problem
    trace_tokens, _time     tr Σ · c
    signal, _per_token, …   |E g|²/tr Σ of a problem, and divided by c
    …_ratio                 to that of the first estimator
    cosine                  of E g and that of the first estimator
    difference_to_noise     signal_to_noise of g − g₁, about 0 where both have one mean
    """
    own_E = [noise_from_gram(gram_NN, weights_N) for gram_NN in table.gram_ENN]
    share_N = weights_N / weights_N.sum()
    costs_E = zip(table.num_tokens_EN @ share_N, table.time_s_EN @ share_N, strict=True)
    by_estimator = [
        _prices(own, float(num_tokens), float(time_s)) | _against_first(table, e, own_E, weights_N)
        for e, (own, (num_tokens, time_s)) in enumerate(zip(own_E, costs_E, strict=True))
    ]
    first = by_estimator[0]
    found: dict[str, float] = {}
    for name, own in zip(table.estimators, by_estimator, strict=True):
        ratios = {f"{key}_ratio": _ratio(own[key], first[key]) for key in WITH_RATIO}
        found |= {f"{name}/{key}": number for key, number in (own | ratios).items()}
    return found


def _prices(own: GradientNoise, num_tokens: float, time_s: float) -> dict[str, float]:
    signal = _ratio(own.squared_norm, own.trace)
    return {
        "num_tokens": num_tokens,
        "time_s": time_s,
        "trace": own.trace,
        "squared_norm": own.squared_norm,
        "signal_to_noise": own.signal_to_noise,
        "noise_scale": own.noise_scale,
        "trace_tokens": own.trace * num_tokens,
        "trace_time": own.trace * time_s,
        "signal": signal,
        "signal_per_token": signal / num_tokens,
        "signal_per_s": signal / time_s,
    }


def _against_first(
    table: GradientTable, e: int, own_E: Sequence[GradientNoise], weights_N: np.ndarray
) -> dict[str, float]:
    """From the noise of the difference of both gradients on each problem."""
    with_first_NN = table.with_first_ENN[e]
    difference_NN = table.gram_ENN[e] - with_first_NN - with_first_NN.T + table.gram_ENN[0]
    difference = noise_from_gram(difference_NN, weights_N)
    own, first = own_E[e].squared_norm, own_E[0].squared_norm
    inner = (own + first - difference.squared_norm) / 2
    is_known = own > 0 and first > 0
    return {
        "cosine": inner / math.sqrt(own * first) if is_known else math.nan,
        "difference_to_noise": difference.signal_to_noise,
    }


def _ratio(number: float, first: float) -> float:
    return number / first if first > 0 else math.nan
