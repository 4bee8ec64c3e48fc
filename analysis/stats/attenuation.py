"""How far the noise of the truth keeps correlations from 1."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.stats.binomial import Counts, check_counts, estimated_value, noise_variance
from analysis.stats.bootstrap import cluster_index
from analysis.stats.correlation import deviations
from analysis.stats.sums import Sums, ratio, variance


def reliability_terms(num_correct_N: np.ndarray, num_samples: Counts) -> dict[str, np.ndarray]:
    """Terms of `reliability` over all states."""
    truth_N = estimated_value(num_correct_N, num_samples)
    centred_N = truth_N - truth_N.mean()
    one_N = np.ones(len(truth_N))
    noise_N = noise_variance(num_correct_N, num_samples)
    return {"one": one_N, "truth": centred_N, "truth_squared": centred_N**2, "noise": noise_N}


def reliability(sums: Sums) -> np.ndarray:
    """Share of the variance of the measured truth that is no noise: 1 − τ/Var(t).

    τ = mean t(1 − t)/(m − 1); Var with N − 1, which holds τ on average. Source: Lord & Novick,
    1968, section 3.3 (reliability), with the binomial error known. Negative by chance where the
    states hardly differ; NaN where the truth does not vary.

    0, 2 and 4 of 4 returns: τ = (0 + 0.25/3 + 0)/3 = 1/36, Var 1/4: 8/9.
    """
    noise = ratio(sums["noise"], sums["one"])
    return 1 - ratio(noise, variance(sums, "truth", "truth_squared"))


def within_reliability_terms(
    num_correct_N: np.ndarray, num_samples: Counts, problem_N: Sequence[Any] | np.ndarray
) -> dict[str, np.ndarray]:
    """Terms of `within_reliability`: squared deviations from the problem's mean, and their noise.

    A deviation among the n states of a problem holds (1 − 1/n) of the noise of its state.
    """
    index_N, _ = cluster_index(problem_N)
    deviations_N = deviations(estimated_value(num_correct_N, num_samples), problem_N)
    noise_N = noise_variance(num_correct_N, num_samples) * (1 - 1 / np.bincount(index_N)[index_N])
    return {"squared": deviations_N**2, "noise": noise_N}


def within_reliability(sums: Sums) -> np.ndarray:
    """1 − Σ noise / Σ squared deviations: `reliability` of `correlation.within`'s truth.

    Truths 0.25 and 0.75 of one problem from 4 returns: Σ squared 0.125, noise 0.0625 each, half of
    it in a deviation: 1 − 0.0625/0.125 = 0.5.
    """
    return 1 - ratio(sums["noise"], sums["squared"])


def split_half_reliability(
    num_correct_N: np.ndarray,
    num_samples: int,
    num_splits: int,
    generator: np.random.Generator,
) -> float:
    """Reliability by halves: r of two halves of the returns, stepped up to all of them.

    Each split deals the m returns of every state into two random halves (a hypergeometric draw);
    the mean r over splits goes through `spearman_brown` with factor 2. It assumes no form of the
    noise and agrees with `reliability`. Raises `ValueError` for an odd m.
    """
    correct_N, _ = check_counts(num_correct_N, num_samples)
    if num_samples % 2:
        raise ValueError(f"num_samples must be even to be halved, got {num_samples}")
    halves = (correct_N, num_samples - correct_N, num_samples // 2)
    one = generator.hypergeometric(*halves, size=(num_splits, len(correct_N)))
    rs = [np.corrcoef(half_N, correct_N - half_N)[0, 1] for half_N in one]
    return float(spearman_brown(np.mean(rs), 2))


def spearman_brown(reliability: float | np.ndarray, factor: float) -> float | np.ndarray:
    """Reliability of `factor` times as many returns: f·ρ/(1 + (f − 1)·ρ).

    Source: Lord & Novick, 1968, section 5.10. Halves that correlate 0.5 make a whole of 2/3. The
    truth's own from m returns gives that of K draws with the factor K/m.
    """
    return factor * reliability / (1 + (factor - 1) * reliability)


def ceiling(reliability: float | np.ndarray) -> np.ndarray:
    """√ρ, the correlation of the true values with the measured truth: no prediction exceeds it.

    Spearman, 1904; for Pearson's correlation, pooled or `correlation.within`, of rank correlations
    only roughly. Of a perfect estimator with K draws it is √(ρ · ρ_K), ρ_K by `spearman_brown`.
    A reliability of 0.81 allows 0.9; NaN where it is negative.
    """
    reliability = np.asarray(reliability, dtype=float)
    return np.sqrt(np.where(reliability >= 0, reliability, np.nan))


def disattenuated(correlation: float | np.ndarray, reliability: float | np.ndarray) -> np.ndarray:
    """r/√ρ, the correlation with the true values. 0.45 at ρ = 0.81: 0.5.

    For an interval put the terms of both together: `pooled_terms(…) | reliability_terms(…)`, or
    `within_terms(…) | within_reliability_terms(…)`; their names do not meet.

    Not cut at 1, which it passes by chance; NaN where ρ is not positive.
    """
    return ratio(np.asarray(correlation, dtype=float), np.nan_to_num(ceiling(reliability)))
