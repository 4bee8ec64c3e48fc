"""The noise of a policy gradient over independent units, and what of it a step of Adam feels.

A unit is what was drawn independently: a problem, with the mean gradient of all its rollouts, which
share a prompt and often a baseline. G_ij = ⟨g_i, g_j⟩ is the Gram matrix of the units' gradients.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from analysis.stats.bootstrap import LEVEL, Estimate


@dataclass(frozen=True)
class GradientNoise:
    """tr Σ of one unit's gradient and |E g|², both unbiased.

    Chance makes the squared norm negative where noise outweighs it.
    """

    trace: float
    squared_norm: float


def noise_from_gram(gram_NN: np.ndarray, weights_N: np.ndarray) -> GradientNoise:
    """From the Gram matrix, a unit counting `weights_N[n]` times: 1, or its count in a resample.

    tr Σ is half the mean of |g_i − g_j|² and |E g|² the mean of G_ij over pairs of different units,
    weighted by w_i·w_j. A unit is never paired with its own copy: that noise would pass for signal.
    Source: McCandlish et al., 2018 (arXiv:1812.06162), appendix A.1. NaN for one unit.

    The Gram matrix ((1, 1), (1, 5)) of (1, 0) and (1, 2): tr Σ = (1 + 5 − 2)/2 = 2, |E g|² = 1.
    """
    weights_N = np.asarray(weights_N, dtype=float)
    total = float(weights_N.sum())
    if np.count_nonzero(weights_N) < 2:
        return GradientNoise(math.nan, math.nan)
    squares_N = np.diag(gram_NN)
    between = weights_N @ gram_NN @ weights_N - weights_N**2 @ squares_N
    pairs = total**2 - weights_N @ weights_N
    trace = ((weights_N * (total - weights_N)) @ squares_N - between) / pairs
    return GradientNoise(float(trace), float(between / pairs))


def adam_gains(
    rows_NC: np.ndarray, signal_NC: np.ndarray, num_units: int, *, is_scaled: bool = False
) -> np.ndarray:
    """The first-order gain of a step of Adam, by all units, then without each of them, [M].

    Noise slows Adam's step only on coordinates that bear signal. With a batch of B = `num_units`
    units, a step of unit rate gains Σ_c c·s_c² / √(c²·s_c² + σ_c²/B). Here σ² is this estimator's
    variance of a unit and s_c² = mean² − variance/N of `signal_NC`. The factor c is 1 or, if
    `is_scaled` (the mean is a multiple of the signal), ⟨E g, s⟩/|s|². M is 1 + N.
    """
    num_rows = len(rows_NC)
    sums = [rows_NC.sum(0), np.square(rows_NC).sum(0)]
    signal_sums = [signal_NC.sum(0), np.square(signal_NC).sum(0)]
    # Σ_c of the products of different units' rows, for which no noise is shared.
    products_NN = rows_NC @ signal_NC.T
    gains = []
    for left_out in ([], *([unit] for unit in range(num_rows))):
        n = num_rows - len(left_out)
        variance_C = _moments(sums, rows_NC[left_out], n)[1]
        signal_mean_C, signal_variance_C = _moments(signal_sums, signal_NC[left_out], n)
        square_C = signal_mean_C**2 - signal_variance_C / n
        total, scale = float(square_C.sum()), 1.0
        if is_scaled and total > 0:
            others_NN = np.delete(np.delete(products_NN, left_out, 0), left_out, 1)
            product = (others_NN.sum() - np.trace(others_NN)) / (n * (n - 1))
            scale = float(product) / total
        size_C = np.sqrt(scale**2 * np.maximum(square_C, 0) + variance_C / num_units)
        gains.append(scale * float((square_C / np.where(size_C > 0, size_C, np.inf)).sum()))
    return np.array(gains)


def gain_estimates(gains_EM: np.ndarray) -> list[tuple[Estimate, Estimate]]:
    """The gain of every estimator and its ratio to the first one's, from `adam_gains`.

    With θ of all units and θ̄ the mean of those without one, the gain is the jackknife
    (N²θ − (N − 1)²θ̄)/(2N − 1). It is for a bias of order 1/N² (Schucany, Gray and Owen, 1971).
    Without θ it is θ̄. experiments/10_interval_coverage tests how often intervals hold the truth.

    Two units, θ = 3 and θ_(−n) = (2, 3): (4·3 − 2.5)/3 = 3.17.
    """
    num_units = gains_EM.shape[1] - 1
    whole_E, without_EN = gains_EM[:, 0], gains_EM[:, 1:]
    mean_E = without_EN.mean(1)
    corrected_E = (num_units**2 * whole_E - (num_units - 1) ** 2 * mean_E) / (2 * num_units - 1)
    gain_E = np.where(np.isnan(whole_E), mean_E, corrected_E)
    first = gain_E[0] if gain_E[0] > 0 else math.nan
    return [
        (
            jackknife(gain, without_N),
            jackknife(gain / first, (without_N - gain / first * without_EN[0]) / first),
        )
        for gain, without_N in zip(gain_E, without_EN, strict=True)
    ]


def jackknife(value: float, without_N: np.ndarray) -> Estimate:
    """`value` ± t · SE from what is estimated without each of N units, N − 1 degrees of freedom.

    SE² = (N − 1)/N Σ (θ_(−n) − mean)². Source: Tukey, 1958; Efron and Stein, 1981.
    """
    num_units = len(without_N)
    if not math.isfinite(value):
        return Estimate(math.nan, None, None)
    error = math.sqrt((num_units - 1) * float(np.var(without_N)))
    half = float(t.ppf((1 + LEVEL) / 2, num_units - 1)) * error
    return Estimate(float(value), value - half, value + half)


def _moments(sums: list[np.ndarray], left_LC: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and unbiased variance of the n units that are there without the rows `left_LC`."""
    mean_C = (sums[0] - left_LC.sum(0)) / n
    square_C = (sums[1] - np.square(left_LC).sum(0)) / n
    return mean_C, np.maximum(square_C - mean_C**2, 0) * n / (n - 1)
