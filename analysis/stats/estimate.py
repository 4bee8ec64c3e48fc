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


def reflected(estimate: Estimate, least: float) -> Estimate:
    """The basic interval in place of the percentiles': 2θ̂ − high to 2θ̂ − low, no end below `least`.

    For a statistic that chance only raises. Each resample raises it once more, so that the
    percentiles lie above the truth, and may lie above θ̂; reflected they lie below θ̂ by as much as θ̂
    is too high. Source: Davison & Hinkley, 1997, section 5.2.

    0.3 with the percentiles 0.25 and 0.7, and 0 as the least: 0.3 with (0, 0.35).
    """
    if estimate.low is None or estimate.high is None:
        return estimate
    ends = (2 * estimate.value - end for end in (estimate.high, estimate.low))
    low, high = (max(end, least) for end in ends)
    return Estimate(estimate.value, low, high)
