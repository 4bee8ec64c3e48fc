"""What errors a perfect Monte-Carlo estimator has: the mean of K returns of the state itself.

No estimator with K draws can do better, and none that does as well has anything else wrong.
"""

import numpy as np
from scipy.stats import binom

from analysis.stats.binomial import (
    Counts,
    check_counts,
    estimated_value,
    noise_variance,
    return_variance,
)
from analysis.stats.sums import Sums, ratio


def expected_absolute_error(
    value_N: np.ndarray, num_draws: int, num_samples: int | None
) -> np.ndarray:
    """E|X/K − t| of X ~ Binomial(K, p), by the binomial probabilities, [N].

    With `num_samples` m the truth is as noisy as a measured one, t = Y/m of an independent
    Y ~ Binomial(m, p): the floor that a measured `value_error.mae` can reach. With None it is t = p
    itself. With the measured p̂ = c/m put in for p it is low by a share of order 1/m
    (by 1/m for K = 1 and t = p).

    K = 1 of p = 0.25: 0.75 · 0.25 + 0.25 · 0.75 = 0.375; with m = 1, 2 · 0.25 · 0.75, the same.
    """
    if num_draws < 1:
        raise ValueError(f"num_draws must be at least 1, got {num_draws}")
    value_N = np.asarray(value_N, dtype=float)
    shares_K = np.arange(num_draws + 1) / num_draws
    draws_NK = binom.pmf(np.arange(num_draws + 1), num_draws, value_N[:, None])
    if num_samples is None:
        return (draws_NK * np.abs(shares_K - value_N[:, None])).sum(axis=1)
    truths_m = np.arange(num_samples + 1) / num_samples
    truth_Nm = binom.pmf(np.arange(num_samples + 1), num_samples, value_N[:, None])
    errors_Km = np.abs(shares_K[:, None] - truths_m)
    return ((draws_NK @ errors_Km) * truth_Nm).sum(axis=1)


def expected_squared_error(
    num_correct_N: np.ndarray, num_samples: Counts, num_draws: int
) -> np.ndarray:
    """Unbiased estimate of E(X/K − p)² = p(1 − p)/K, from c of m returns, [N].

    The floor of `value_error.corrected_mse`. 2 of 4 and K = 2: (4/12)/2 = 1/6.
    """
    if num_draws < 1:
        raise ValueError(f"num_draws must be at least 1, got {num_draws}")
    return return_variance(num_correct_N, num_samples) / num_draws


def split_error_terms(
    draws_correct_N: np.ndarray,
    num_draws: Counts,
    num_correct_N: np.ndarray,
    num_samples: Counts,
) -> dict[str, np.ndarray]:
    """Squared errors of predictions k/K split by their own draws, K ≥ 2: terms of the sums below.

    (k/K − t)² − t(1 − t)/(m − 1) has the expectation (q − p)² + q(1 − q)/K, q what the draws are
    draws of. v(1 − v)/(K − 1), v = k/K, is unbiased for the second part; the first, the systematic
    error (a stale policy, another budget), is what remains.

    Raises `ValueError` for K = 1, of which nothing shows its own variance.
    """
    check_counts(draws_correct_N, num_draws)
    values_N = estimated_value(draws_correct_N, num_draws)
    truth_N = estimated_value(num_correct_N, num_samples)
    squared_N = (values_N - truth_N) ** 2 - noise_variance(num_correct_N, num_samples)
    sampling_N = noise_variance(draws_correct_N, num_draws)
    return {
        "one": np.ones(len(values_N)),
        "squared": squared_N,
        "sampling": sampling_N,
        "systematic": squared_N - sampling_N,
    }


def sampling_mse(sums: Sums) -> np.ndarray:
    """mean q(1 − q)/K: 1 of 2 draws right in every state gives 0.5 · 0.5 / 1 = 0.25."""
    return ratio(sums["sampling"], sums["one"])


def systematic_mse(sums: Sums) -> np.ndarray:
    """mean (q − p)²: 0 on average for draws from the policy whose values are the truth."""
    return ratio(sums["systematic"], sums["one"])


def sampling_share(sums: Sums) -> np.ndarray:
    """The part of the corrected squared error that is sampling; 1 of a perfect estimator.

    By chance above 1; NaN where the corrected error is not positive. Predictions 1/2 of the truths
    0 and 16 of 16: squared 1/4, sampling 1/4: 1.
    """
    return ratio(sums["sampling"], sums["squared"])
