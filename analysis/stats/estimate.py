"""A number with its interval."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Estimate:
    """A number and its interval, of 95 % where nothing else is said.

    The bounds are None where the data give none. The number is NaN where it is undefined.
    """

    value: float
    low: float | None
    high: float | None


def percentile_estimate(
    value: float | np.ndarray | np.floating, resampled_R: np.ndarray, level: float
) -> Estimate:
    """The central `level` of the resamples: their quantiles at (1 − level)/2 and (1 + level)/2.

    Source: Efron & Tibshirani, 1993, chapter 13. Resamples on which the statistic is undefined
    (NaN) could lie anywhere, so bounds are given only while a tail holds no fewer than there are.

    Of resamples 0, 0.01, …, 1 at a level of 0.9: (0.05, 0.95).
    """
    tail = (1 - level) / 2
    is_defined_R = ~np.isnan(resampled_R)
    if np.mean(~is_defined_R) > tail:
        return Estimate(float(value), None, None)
    low, high = np.quantile(resampled_R[is_defined_R], [tail, (1 + level) / 2])
    return Estimate(float(value), float(low), float(high))
