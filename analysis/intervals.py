"""Estimates with confidence intervals: over the problems of a run, and over the seeds of a method.

In the suffixes, N and M are the seeds of two methods and R the resamples of a bootstrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAP_SEED = 0
NUM_SEED_RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; the bounds are None where the data give none."""

    value: float
    low: float | None
    high: float | None


def bootstrap_interval(
    rates_P: Sequence[float], seed: int, num_resamples: int = 2000, level: float = LEVEL
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean of `rates_P` over problems drawn anew.

    The problems are the unit of resampling: samples of one problem are no independent evidence on
    the policy's accuracy. The same seed resamples the same problems, so the intervals of the
    checkpoints of a run move together. Source: Efron & Tibshirani, 1993, chapter 13.

    Rates that are all 0.5 leave no doubt: `bootstrap_interval([0.5] * 9, seed=0)` is (0.5, 0.5).
    """
    rates = np.asarray(rates_P, dtype=float)
    generator = np.random.default_rng(seed)
    # Resampling P problems is drawing how often each of them comes up.
    weights = generator.multinomial(len(rates), np.full(len(rates), 1 / len(rates)), num_resamples)
    means = weights @ rates / len(rates)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """Mean of the middle half of the N scores along the last axis.

    IQM = mean of x_(k+1) … x_(N−k) in ascending order, k = ⌊N/4⌋, so that fewer than four scores
    give their mean. Source: Agarwal et al., 2021 (arXiv:2108.13264), section 4.3, for one task.

    >>> float(interquartile_mean(np.array([0.5, 0.1, 0.7, 0.9, 0.6])))
    0.6
    """
    ordered = np.sort(scores, axis=-1)
    num_cut = ordered.shape[-1] // 4
    return ordered[..., num_cut : ordered.shape[-1] - num_cut].mean(axis=-1)


def iqm_over_seeds(scores_N: Sequence[float]) -> Estimate:
    """IQM of a method's scores and its percentile bootstrap interval over seeds drawn anew.

    One seed has no interval. The same number of seeds is always resampled alike, so the intervals
    of a learning curve move together. Source: Agarwal et al., 2021, section 4.1; with one task its
    stratified bootstrap is this one.

    Of (0, 0, 0, 0, 1) the IQM is 0 and the interval (0, 2/3): three ones in a resample, which leave
    two in its middle three, come up in 5.8 % of resamples, four in 0.7 %.
    """
    scores = np.asarray(scores_N, dtype=float)
    resampled_RN = scores[_drawn_seeds(np.random.default_rng(BOOTSTRAP_SEED), len(scores))]
    return _estimate(interquartile_mean(scores), interquartile_mean(resampled_RN), [scores])


def iqm_difference(scores_N: Sequence[float], baseline_M: Sequence[float]) -> Estimate:
    """IQM of `scores_N` minus that of `baseline_M`, the seeds of each resampled on their own.

    Two methods of one seed each differ by a number without an interval:
    `iqm_difference([0.75], [0.5])` is `Estimate(0.25, None, None)`.
    """
    scores, baseline, drawn_RN, drawn_RM = _resampled_pair(scores_N, baseline_M)
    resampled_R = interquartile_mean(scores[drawn_RN]) - interquartile_mean(baseline[drawn_RM])
    value = interquartile_mean(scores) - interquartile_mean(baseline)
    return _estimate(value, resampled_R, [scores, baseline])


def probability_of_improvement(scores_N: Sequence[float], baseline_M: Sequence[float]) -> Estimate:
    """P(X > Y) of a seed X of the method and a seed Y of the baseline, a tie counting one half.

    P = Σ_ij (1[x_i > y_j] + ½·1[x_i = y_j]) / (N·M), the Mann–Whitney statistic; its interval
    resamples the seeds of each method on their own. Source: Agarwal et al., 2021, section 4.3.

    (1, 2, 3) against (0, 2, 9) wins 4 of the 9 pairs and ties 1: 0.5.
    """
    scores, baseline, drawn_RN, drawn_RM = _resampled_pair(scores_N, baseline_M)
    wins_NM = (scores[:, None] > baseline) + 0.5 * (scores[:, None] == baseline)
    resampled_R = wins_NM[drawn_RN[:, :, None], drawn_RM[:, None, :]].mean(axis=(1, 2))
    return _estimate(wins_NM.mean(), resampled_R, [scores, baseline])


def _resampled_pair(
    scores_N: Sequence[float], baseline_M: Sequence[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    drawn_RN = _drawn_seeds(generator, len(scores_N))
    drawn_RM = _drawn_seeds(generator, len(baseline_M))
    return np.asarray(scores_N, float), np.asarray(baseline_M, float), drawn_RN, drawn_RM


def _drawn_seeds(generator: np.random.Generator, num_seeds: int) -> np.ndarray:
    return generator.integers(num_seeds, size=(NUM_SEED_RESAMPLES, num_seeds))


def _estimate(
    value: np.ndarray | np.floating, resampled_R: np.ndarray, samples: list[np.ndarray]
) -> Estimate:
    """Resampling a single seed always gives that seed again, which would look like certainty."""
    if min(map(len, samples)) < 2:
        return Estimate(float(value), None, None)
    low, high = np.quantile(resampled_R, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))
