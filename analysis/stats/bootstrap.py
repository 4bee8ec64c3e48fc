"""Intervals over problems: the states of a problem are drawn together or not at all.

A statistic has two parts: the terms of every state, `{name: [N]}`, and a function of their sums.
The sums have shape () or, for R resamples at once, (R,). Resampling C problems draws how often each
comes up, `counts_RC`: the same for all predictors at the same seed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from scipy.stats import norm, t

BOOTSTRAP_SEED = 0
LEVEL = 0.95

Terms = Mapping[str, np.ndarray]  # [N] each
Sums = Mapping[str, np.ndarray]  # () or [R] each
SumStatistic = Callable[[Sums], np.ndarray]
WeightStatistic = Callable[[np.ndarray], Mapping[str, float]]

# Sums of squared deviations of at most this share of the sum of squares are rounding.
NEGLIGIBLE = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A number, NaN if undefined, and its interval, by default of 95 %, None if there is none."""

    value: float
    low: float | None
    high: float | None


def percentile_estimate(
    value: float | np.ndarray | np.floating, resampled_R: np.ndarray, level: float
) -> Estimate:
    """The central `level` of the resamples: their quantiles at (1 − level)/2 and (1 + level)/2.

    Source: Efron & Tibshirani, 1993, chapter 13. Undefined resamples (NaN) could lie anywhere: the
    bounds are None if there are more of them than a tail holds.

    Of resamples 0, 0.01, …, 1 at a level of 0.9: (0.05, 0.95).
    """
    tail = (1 - level) / 2
    is_defined_R = ~np.isnan(resampled_R)
    if np.mean(~is_defined_R) > tail:
        return Estimate(float(value), None, None)
    low, high = np.quantile(resampled_R[is_defined_R], [tail, (1 + level) / 2])
    return Estimate(float(value), float(low), float(high))


def total(terms: Terms) -> dict[str, np.ndarray]:
    """The sums over all states, each once: `mae(total(terms))` is the value without an interval."""
    return {name: np.asarray(of_N).sum() for name, of_N in terms.items()}


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Quotient, NaN where the denominator is not positive: there is nothing to divide by."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, numerator / safe, np.nan)


def variance(sums: Sums, name: str, squared_name: str) -> np.ndarray:
    """Sample variance with N − 1 of the term `name` from its squares and the term "one".

    (Σx² − (Σx)²/N)/(N − 1): for 1, 2, 3 it is 1. Exactly 0 where all are equal up to rounding, NaN
    for fewer than two states. Give terms that are nearly centred: their digits cancel.
    """
    num, squares = sums["one"], sums[squared_name]
    deviations = squares - ratio(sums[name] ** 2, num)
    return ratio(np.where(deviations > NEGLIGIBLE * squares, deviations, 0.0), num - 1)


def mean_of(name: str) -> SumStatistic:
    """The mean of a term over the states; the sum of the term "one" counts them."""
    return lambda sums: ratio(sums[name], sums["one"])


def cluster_index(cluster_N: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, int]:
    """The number of each state's cluster, in ascending order of their names, and how many.

    >>> cluster_index(["b", "a", "b"])
    (array([1, 0, 1]), 2)
    """
    names, index_N = np.unique(np.asarray(cluster_N), return_inverse=True)
    return index_N, len(names)


def draw_counts(
    num_clusters: int, num_resamples: int, generator: np.random.Generator
) -> np.ndarray:
    """How often each of C clusters comes up in each of R resamples of C clusters, [R, C]."""
    share_C = np.full(num_clusters, 1 / num_clusters)
    return generator.multinomial(num_clusters, share_C, num_resamples)


def mean_over_problems(
    rates_P: Sequence[float], question_P: Sequence[str], num_resamples: int = 2000
) -> Estimate:
    """The mean of `rates_P` with the percentile bootstrap interval over questions drawn anew.

    Samples of one problem are no independent evidence on the policy's accuracy, nor are problems
    of one question. The same questions are drawn every time, so the intervals of the checkpoints of
    a run move together.

    Rates that are all 0.5 leave no doubt: `Estimate(0.5, 0.5, 0.5)`.
    """
    rates = np.asarray(rates_P, dtype=float)
    places = {question: place for place, question in enumerate(dict.fromkeys(question_P))}
    index_P = [places[question] for question in question_P]
    counts_RC = _counts_of_problems(len(places), num_resamples)
    resampled_R = counts_RC @ np.bincount(index_P, rates) / (counts_RC @ np.bincount(index_P))
    return percentile_estimate(rates.mean(), resampled_R, LEVEL)


@lru_cache(maxsize=1)
def _counts_of_problems(num_problems: int, num_resamples: int) -> np.ndarray:
    """[R, P]; to draw them takes longer than all else of an evaluation."""
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    return draw_counts(num_problems, num_resamples, generator).astype(float)


def expanded_level(level: float, num_clusters: int) -> float:
    """The share of resamples that an interval of `level` takes, a little more than `level`.

    1 − 2Φ(−√(C/(C − 1))·t), t the (1 + level)/2 quantile of Student's t with C − 1 degrees of
    freedom. Source: Hesterberg, 2014 (arXiv:1411.5279), the expanded percentile interval.

    95 % of 60 problems: 1 − 2Φ(−1.0084 · 2.0010) = 0.9564.
    """
    quantile = t.ppf((1 + level) / 2, num_clusters - 1)
    return float(1 - 2 * norm.cdf(-np.sqrt(num_clusters / (num_clusters - 1)) * quantile))


def bootstrap_sums(
    terms: Terms,
    cluster_N: Sequence[Any] | np.ndarray,
    statistics: Mapping[str, SumStatistic],
    generator: np.random.Generator,
    *,
    num_resamples: int,
    level: float,
) -> dict[str, Estimate]:
    """Each statistic of the sums with its expanded percentile interval over resampled clusters.

    The terms are summed within clusters once, [C], and a resample is their sum weighted by its
    counts. One cluster has no interval. Source: Davison & Hinkley, 1997, section 3.8.

    Errors 0 and 0 of problem a and 1 and 1 of problem b have the mean 0.5 and the interval (0, 1):
    a quarter of the resamples holds b alone.
    """
    return _bootstrap([terms], cluster_N, statistics, generator, num_resamples, level)


def bootstrap_difference(
    terms: Terms,
    baseline_terms: Terms,
    cluster_N: Sequence[Any] | np.ndarray,
    statistics: Mapping[str, SumStatistic],
    generator: np.random.Generator,
    *,
    num_resamples: int,
    level: float,
) -> dict[str, Estimate]:
    """Each statistic of `terms` minus that of `baseline_terms`, both on the same resamples.

    Shared hard problems and noise of the truth cancel: a predictor minus itself is 0, with the
    interval (0, 0).
    """
    both = [terms, baseline_terms]
    return _bootstrap(both, cluster_N, statistics, generator, num_resamples, level)


def bootstrap_weights(
    statistic: WeightStatistic,
    cluster_N: Sequence[Any] | np.ndarray,
    generator: np.random.Generator,
    *,
    num_resamples: int,
    level: float,
) -> dict[str, Estimate]:
    """Numbers that are no function of sums (ranks, isotonic fits), over resampled clusters.

    `statistic(weights_N)` gives numbers by name, each state counting `weights_N[n]` times, 0
    meaning not at all; it is called once with ones and once a resample.

    The weighted mean of (0, 0, 1, 1) in problems (a, a, b, b) is 0.5, its interval (0, 1).
    """
    index_N, num_clusters = cluster_index(cluster_N)
    counts_RC = draw_counts(num_clusters, num_resamples, generator)
    values = statistic(np.ones(len(index_N), dtype=int))
    resampled_R = [statistic(counts_C[index_N]) for counts_C in counts_RC]
    return {
        name: _estimate(
            value, np.array([means[name] for means in resampled_R]), num_clusters, level
        )
        for name, value in values.items()
    }


def _bootstrap(
    each_terms: Sequence[Terms],
    cluster_N: Sequence[Any] | np.ndarray,
    statistics: Mapping[str, SumStatistic],
    generator: np.random.Generator,
    num_resamples: int,
    level: float,
) -> dict[str, Estimate]:
    """Estimates of each statistic of one set of terms, or of its difference between two."""
    index_N, num_clusters = cluster_index(cluster_N)
    counts_RC = draw_counts(num_clusters, num_resamples, generator).astype(float)

    def resampled(terms: Terms) -> dict[str, np.ndarray]:
        sums_QC = [
            np.bincount(index_N, term_N, minlength=num_clusters) for term_N in terms.values()
        ]
        return dict(zip(terms, (counts_RC @ np.array(sums_QC).T).T, strict=True))

    each_sums = list(map(total, each_terms)), list(map(resampled, each_terms))
    estimates = {}
    for name, statistic in statistics.items():
        value, resampled_R = (reduce(np.subtract, map(statistic, sums)) for sums in each_sums)
        estimates[name] = _estimate(value, resampled_R, num_clusters, level)
    return estimates


def _estimate(
    value: float | np.ndarray, resampled_R: np.ndarray, num_clusters: int, level: float
) -> Estimate:
    """Resampling a single problem always gives that problem, which would look like certainty."""
    if num_clusters < 2:
        return Estimate(float(value), None, None)
    return percentile_estimate(value, resampled_R, expanded_level(level, num_clusters))
