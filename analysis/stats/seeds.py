"""Numbers of a method over its seeds, with intervals from seeds drawn anew.

All intervals are of 95 % and resample alike every time, so tables come out the same. In the
suffixes, N and M are the seeds of two methods.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import bootstrap, trim_mean

from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate

NUM_SEED_RESAMPLES = 10_000

Scores = Sequence[float] | np.ndarray


def interquartile_mean(scores: Scores, axis: int = -1) -> np.ndarray:
    """Mean of the middle half of the scores; fewer than four give their mean.

    Source: Agarwal et al., 2021 (arXiv:2108.13264), section 4.3.

    Of (0.5, 0.1, 0.7, 0.9, 0.6): 0.6.
    """
    return trim_mean(scores, 0.25, axis=axis)


def iqm(scores_N: Scores) -> Estimate:
    """The interquartile mean and its percentile bootstrap interval. One seed has no interval.

    Of (0, 0, 0, 0, 1) it is 0 with the interval (0, 2/3): three ones in a resample leave two in
    its middle three and come up in 5.8 % of resamples, four in 0.7 %.
    """
    return over_seeds(interquartile_mean, scores_N)


def iqm_difference(scores_N: Scores, baseline_M: Scores) -> Estimate:
    """IQM of `scores_N` minus that of `baseline_M`; the seeds of each are redrawn on their own.

    (0.25, 0.75) against (0, 0.5): 0.25 with the interval (−0.25, 0.75).
    """
    return over_seeds(difference_of(interquartile_mean), scores_N, baseline_M)


def area_under_curve(
    costs: Scores, scores: Scores, low: float | None = None, high: float | None = None
) -> float:
    """Mean score over the costs from `low` to `high`, the evaluations joined by straight lines.

    Costs ascend. (0, 2, 6) with (0, 0.5, 1): (2 · 0.25 + 4 · 0.75)/6 = 0.583; from 5 to 15 of
    (0, 10, 20) with (0, 1, 1): 0.875. One evaluation gives its score.
    """
    low, high = (costs[0] if low is None else low), (costs[-1] if high is None else high)
    places = np.array([low, *(cost for cost in costs if low < cost < high), high], dtype=float)
    at = np.interp(places, costs, scores)
    return float(at[0] if low == high else np.trapezoid(at, places) / (high - low))


def common_support(costs: Sequence[Scores]) -> tuple[float, float] | None:
    """The costs that every curve covers, from the latest first to the earliest last.

    (0, 10, 20) and (5, 30): (5, 20). None where no stretch is common.
    """
    low, high = max(of_run[0] for of_run in costs), min(of_run[-1] for of_run in costs)
    return (low, high) if low < high else None


def crossing(costs: Scores, scores: Scores, level: float) -> float:
    """The score where a curve's cost first reaches `level`, on the straight line to it.

    Of (0, 1, 3) with (0.2, 0.6, 0.8) at 2: 0.7. The cost may fall again later, as a KL does.
    Raises `ValueError` where the curve does not cover the level.
    """
    if costs[0] == level:
        return scores[0]
    if costs[0] < level:
        for (low, start), (high, end) in pairwise(zip(costs, scores, strict=True)):
            if high >= level:
                return start + (end - start) * (level - low) / (high - low)
    raise ValueError(f"level must be in {costs[0]}..{max(costs)}, got {level}")


def difference_of(statistic: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, axis=-1: statistic(x, axis=axis) - statistic(y, axis=axis)


def over_seeds(statistic: Callable[..., Any], *methods: Scores) -> Estimate:
    samples = [np.asarray(scores, dtype=float) for scores in methods]
    value = float(statistic(*samples))
    # Resampling one seed always gives that seed again, which would look like certainty.
    if min(map(len, samples)) < 2:
        return Estimate(value, None, None)
    interval = bootstrap(
        samples,
        statistic,
        paired=False,
        vectorized=True,
        n_resamples=NUM_SEED_RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high))
