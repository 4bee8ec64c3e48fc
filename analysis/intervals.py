"""The intervals of curves and summaries: over the problems of a run, and over a method's seeds.

All of them are of 95 % and resample alike every time, so that tables come out the same. In the
suffixes, N and M are the seeds of two methods.
"""

from collections.abc import Sequence

import numpy as np

from analysis.stats import seed_bootstrap
from analysis.stats.bootstrap import draw_counts
from analysis.stats.estimate import Estimate

BOOTSTRAP_SEED = 0
NUM_SEED_RESAMPLES = 10_000
LEVEL = 0.95


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
    counts_RP = draw_counts(len(rates), num_resamples, np.random.default_rng(seed))
    means_R = counts_RP @ rates / len(rates)
    low, high = np.quantile(means_R, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def iqm_over_seeds(scores_N: Sequence[float]) -> Estimate:
    """IQM of a method's scores and its percentile bootstrap interval over seeds drawn anew.

    `seed_bootstrap.iqm` of one task. The same number of seeds is always resampled alike, so the
    intervals of a learning curve move together. One seed has no interval.

    Of (0, 0, 0, 0, 1) the IQM is 0 and the interval (0, 2/3).
    """
    return seed_bootstrap.iqm(
        [scores_N], _generator(), num_resamples=NUM_SEED_RESAMPLES, level=LEVEL
    )


def iqm_difference(scores_N: Sequence[float], baseline_M: Sequence[float]) -> Estimate:
    """IQM of `scores_N` minus that of `baseline_M`, the seeds of each resampled on their own.

    Two methods of one seed each differ by a number without an interval:
    `iqm_difference([0.75], [0.5])` is `Estimate(0.25, None, None)`.
    """
    return seed_bootstrap.iqm_difference(
        [scores_N], [baseline_M], _generator(), num_resamples=NUM_SEED_RESAMPLES, level=LEVEL
    )


def probability_of_improvement(scores_N: Sequence[float], baseline_M: Sequence[float]) -> Estimate:
    """P(X > Y) of a seed X of the method and a seed Y of the baseline, a tie counting one half.

    `seed_bootstrap.probability_of_improvement` of one task: (1, 2, 3) against (0, 2, 9) wins 4 of
    the 9 pairs and ties 1: 0.5.
    """
    return seed_bootstrap.probability_of_improvement(
        [scores_N], [baseline_M], _generator(), num_resamples=NUM_SEED_RESAMPLES, level=LEVEL
    )


def _generator() -> np.random.Generator:
    return np.random.default_rng(BOOTSTRAP_SEED)
