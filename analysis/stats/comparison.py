"""Two methods over a handful of seeds: effect, interval and test.

An effect is always `method` minus `baseline`; N and M in suffixes are the seeds of the two. Only
seeds vary, the test problems do not. How far to trust each interval at 3 to 16 seeds is measured in
experiments/10_interval_coverage.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import permutation_test, ttest_ind

from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate
from analysis.stats.seeds import Scores

MAX_ASSIGNMENTS = 200_000  # 10 seeds against 10 have 184,756


@dataclass(frozen=True)
class Comparison:
    """An effect with its interval, and the two-sided p-value of the t-test of no effect.

    `df` are the degrees of freedom of t. Both are None where the data give no interval.
    """

    effect: Estimate
    df: float | None = None
    p_value: float | None = None


def welch(method_N: Scores, baseline_M: Scores, level: float = LEVEL) -> Comparison:
    """Difference of the means of independent seeds; their spreads may differ.

    t = (x̄ − ȳ)/√(s²ₓ/N + s²ᵧ/M) with Satterthwaite's degrees of freedom (Welch, 1947). One seed has
    no interval.

    (0.6, 0.7, 0.8) against (0.5, 0.5, 0.5): 0.2 ± 4.303 · 0.0577, two degrees of freedom.
    """
    return t_test(ttest_ind, method_N, baseline_M, level, equal_var=False)


def t_test(
    test: Callable[..., Any], method: Scores, baseline: Scores, level: float, **options: Any
) -> Comparison:
    """By scipy's `test`; no interval of a single seed, nor where nothing varies."""
    value = float(np.mean(method) - np.mean(baseline))
    result = test(method, baseline, **options) if min(len(method), len(baseline)) > 1 else None
    if result is None or not np.isfinite(result.statistic):
        return Comparison(Estimate(value, None, None))
    low, high = map(float, result.confidence_interval(level))
    return Comparison(Estimate(value, low, high), float(result.df), float(result.pvalue))


def permutation_p(method_N: Scores, baseline_M: Scores) -> float | None:
    """Two-sided p-value of the difference of means if the labels of the methods meant nothing.

    p is the share of assignments of scores to methods with an |effect| of at least the observed
    one. It takes all assignments up to `MAX_ASSIGNMENTS`, else as many at random. Source: Pitman,
    1937. p is at least 2/C(2n, n), and None for a single seed.

    (3, 4, 5) against (0, 1, 2): 0.1. (0.62, 0) against (0, 0, 0.07): 0.4.
    """
    if min(len(method_N), len(baseline_M)) < 2:
        return None

    def distance(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.round(np.abs(x.mean(axis=axis) - y.mean(axis=axis)), 12)

    found = permutation_test(
        (np.asarray(method_N, dtype=float), np.asarray(baseline_M, dtype=float)),
        distance,
        vectorized=True,
        alternative="greater",
        n_resamples=MAX_ASSIGNMENTS,
        batch=10_000,
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    return float(found.pvalue)
