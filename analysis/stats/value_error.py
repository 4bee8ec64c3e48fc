"""Errors of predicted values against truth counts, as functions of sums over states.

The truth t = c/m of a state is itself noisy, with variance p(1 − p)/m. Bias does not see that
noise. Squared errors and variances hold it, and the corrected ones subtract its unbiased estimate.
The mean absolute error holds it too and has no such correction: compare it with
`sampling_error.expected_absolute_error` at the same m.
"""

import numpy as np

from analysis.stats.binomial import Counts, estimated_value, noise_variance
from analysis.stats.sums import Sums, ratio, variance


def error_terms(
    values_N: np.ndarray, num_correct_N: np.ndarray, num_samples: Counts, threshold: float
) -> dict[str, np.ndarray]:
    """What every state adds to the statistics below; errors are v − c/m.

    `threshold` is that of `accuracy`. Truths are centred on their mean, which no variance sees.

    Raises `ValueError` for values that are not finite: a state without a prediction must be left
    out by whoever knows why it has none.
    """
    values_N = np.asarray(values_N, dtype=float)
    if not np.all(np.isfinite(values_N)):
        raise ValueError("values_N must be finite")
    truth_N = estimated_value(num_correct_N, num_samples)
    error_N, centred_N = values_N - truth_N, truth_N - truth_N.mean()
    return {
        "one": np.ones(len(values_N)),
        "error": error_N,
        "absolute": np.abs(error_N),
        "squared": error_N**2,
        "noise": noise_variance(num_correct_N, num_samples),
        "truth": centred_N,
        "truth_squared": centred_N**2,
        # An error of exactly the threshold must not hang on how v − t was rounded.
        "accurate": (np.abs(error_N) <= threshold + 1e-9).astype(float),
    }


def bias(sums: Sums) -> np.ndarray:
    """mean(v − t), unbiased for mean(v − p). Values 0.5, 0.5 of truths 0.25, 0.5: 0.125."""
    return ratio(sums["error"], sums["one"])


def mae(sums: Sums) -> np.ndarray:
    """mean |v − t|, the noise of the truth included. Values 0.5, 0.5 of 0.25, 0.5: 0.125."""
    return ratio(sums["absolute"], sums["one"])


def mse(sums: Sums) -> np.ndarray:
    """mean (v − t)², the noise of the truth included. Values 0.5, 0.5 of 0.25, 0.5: 0.03125."""
    return ratio(sums["squared"], sums["one"])


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

    The variances are those with N − 1, which hold τ on average. Near 1 for a perfect prediction, by
    chance also above; NaN where the truth varies no more than its noise.

    Values 0.25, 0.75 of 0 and 16 of 16 returns have no noise: 0.75. Values 0.5, 0.5, 0.5 of 2, 8
    and 14 of 16 explain nothing: 0.
    """
    noise = ratio(sums["noise"], sums["one"])
    left = variance(sums, "error", "squared") - noise
    return 1 - ratio(left, variance(sums, "truth", "truth_squared") - noise)


def accuracy(sums: Sums) -> np.ndarray:
    """Share of states with |v − t| ≤ threshold, as published (arXiv:2410.01679).

    Values 0.5, 0.5 of truths 0.25, 0.5 and a threshold of 0.1: 0.5.
    """
    return ratio(sums["accurate"], sums["one"])
