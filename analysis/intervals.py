"""Confidence intervals."""

from collections.abc import Sequence

import numpy as np


def bootstrap_interval(
    rates_P: Sequence[float], seed: int, num_resamples: int = 2000, level: float = 0.95
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
