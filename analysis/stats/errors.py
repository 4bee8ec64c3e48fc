"""Errors of predicted values against truths that are counts of fresh returns, each 0 or 1.

The truth t = c/m of a state is itself noisy, with variance p(1 − p)/m. Bias does not see that
noise. Squared errors and variances hold it, and the corrected ones subtract its unbiased estimate.
The mean absolute error holds it too and has no such correction. Compare it with a perfect
Monte-Carlo estimator's, `expected_absolute_error` at the same m.
"""

import numpy as np
from scipy.stats import beta, binom

from analysis.stats.bootstrap import Sums, mean_of, ratio, variance

Counts = np.ndarray | int


def estimated_value(num_correct: Counts, num_samples: Counts) -> np.ndarray:
    """p̂ = c/m: unbiased, no prior. 64 of 256 returns are 1: 0.25."""
    return np.asarray(num_correct) / num_samples


def noise_variance(num_correct: Counts, num_samples: Counts) -> np.ndarray:
    """Unbiased estimate of the variance of c/m as an estimate of p: p̂(1 − p̂)/(m − 1).

    E[c(m − c)] = m(m − 1)·p(1 − p), so that c(m − c)/(m²(m − 1)) has the expectation p(1 − p)/m.
    64 of 256: 0.25 · 0.75 / 255 = 0.000735.
    """
    return return_variance(num_correct, num_samples) / num_samples


def return_variance(num_correct: Counts, num_samples: Counts) -> np.ndarray:
    """Unbiased estimate of the variance p(1 − p) of one return: c(m − c)/(m(m − 1)), m from 2.

    2 of 4 are 1: 4/12 = 1/3.
    """
    correct, samples = np.asarray(num_correct), np.asarray(num_samples, dtype=float)
    return correct * (samples - correct) / (samples * (samples - 1))


def jeffreys_interval(
    num_correct: Counts, num_samples: Counts, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Jeffreys' interval of p: central quantiles of Beta(c + ½, m − c + ½).

    Its low end is 0 where c = 0 and its high end 1 where c = m. Source: Brown, Cai & DasGupta,
    2001, section 3.1.3. 15 of 50 at 95 %: (0.1869, 0.4355).
    """
    correct, samples = np.broadcast_arrays(num_correct, num_samples)
    ends = correct + 0.5, samples - correct + 0.5
    low = np.where(correct == 0, 0.0, beta.ppf((1 - level) / 2, *ends))
    return low, np.where(correct == samples, 1.0, beta.ppf((1 + level) / 2, *ends))


def truth_terms(num_correct_N: np.ndarray, num_samples: Counts) -> dict[str, np.ndarray]:
    """The measured truths, centred on their mean, which no variance sees, and their noise."""
    truth_N = estimated_value(num_correct_N, num_samples)
    centred_N = truth_N - truth_N.mean()
    return {
        "one": np.ones(len(truth_N)),
        "truth": centred_N,
        "truth_squared": centred_N**2,
        "noise": noise_variance(num_correct_N, num_samples),
    }


def error_terms(
    values_N: np.ndarray, num_correct_N: np.ndarray, num_samples: Counts, threshold: float
) -> dict[str, np.ndarray]:
    """The terms of the statistics below, by state; errors are v − c/m, `threshold` `accuracy`'s."""
    error_N = values_N - estimated_value(num_correct_N, num_samples)
    return truth_terms(num_correct_N, num_samples) | {
        "error": error_N,
        "absolute": np.abs(error_N),
        "squared": error_N**2,
        # An error of exactly the threshold must not hang on how v − t was rounded.
        "accurate": (np.abs(error_N) <= threshold + 1e-9).astype(float),
    }


# Examples are of values 0.5, 0.5 and truths 0.25, 0.5.
bias = mean_of("error")  # mean(v − t), unbiased for mean(v − p): 0.125
mae = mean_of("absolute")  # mean |v − t|, the noise of the truth included: 0.125
# Share of states with |v − t| ≤ threshold, as published (arXiv:2410.01679); of 0.1: 0.5.
accuracy = mean_of("accurate")


def corrected_mse(sums: Sums) -> np.ndarray:
    """mean [(v − t)² − t(1 − t)/(m − 1)], unbiased for mean (v − p)²; it can be negative.

    Holds where the prediction is independent of the returns behind the truth. Values 0.5, 0.5 of 1
    and 2 of 4 returns: 0.03125 − (0.0625 + 0.08333)/2 = −0.04167.
    """
    return ratio(sums["squared"] - sums["noise"], sums["one"])


def explained_variance(sums: Sums) -> np.ndarray:
    """1 − Var(t − v)/Var(t); NaN where the truth does not vary.

    Values 0.25, 0.75 of truths 0, 1 leave a variance of 1/16 of 1/4: 0.75. The noise of the truth
    is in both variances: a perfect prediction does not reach 1.
    """
    left = variance(sums, "error", "squared")
    return 1 - ratio(left, variance(sums, "truth", "truth_squared"))


def corrected_explained_variance(sums: Sums) -> np.ndarray:
    """1 − (Var(t − v) − τ)/(Var(t) − τ), τ = mean t(1 − t)/(m − 1), for 1 − Var(p − v)/Var(p).

    By chance also above 1; NaN where the truth varies no more than its noise. Values 0.5, 0.5, 0.5
    of 2, 8 and 14 of 16 explain nothing: 0.
    """
    noise = ratio(sums["noise"], sums["one"])
    left = variance(sums, "error", "squared") - noise
    return 1 - ratio(left, variance(sums, "truth", "truth_squared") - noise)


def expected_absolute_error(
    value_N: np.ndarray, num_draws: int, num_samples: int | None
) -> np.ndarray:
    """E|X/K − t| of X ~ Binomial(K, p), by the binomial probabilities, [N].

    With `num_samples` m the truth is as noisy as a measured one: t = Y/m of Y ~ Binomial(m, p).
    This is the floor that a measured `mae` can reach. With None it is t = p.

    K = 1 of p = 0.25: 0.75 · 0.25 + 0.25 · 0.75 = 0.375; with m = 1, 2 · 0.25 · 0.75, the same.
    """
    value_N1 = np.asarray(value_N, dtype=float)[:, None]
    counts_K = np.arange(num_draws + 1)
    shares_K, chances_NK = counts_K / num_draws, binom.pmf(counts_K, num_draws, value_N1)
    if num_samples is None:
        return (chances_NK * np.abs(shares_K - value_N1)).sum(axis=1)
    counts_M = np.arange(num_samples + 1)
    errors_KM = np.abs(shares_K[:, None] - counts_M / num_samples)
    return ((chances_NK @ errors_KM) * binom.pmf(counts_M, num_samples, value_N1)).sum(axis=1)
