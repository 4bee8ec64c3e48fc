"""Correlations of predictions with the truth, and how far its noise keeps them from 1.

Pooled correlations also reward knowing which *problem* is hard. Within a problem only what happens
along its responses is left, which is what credit assignment needs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.bootstrap import NEGLIGIBLE, Sums, cluster_index, ratio, variance
from analysis.stats.errors import Counts, estimated_value, noise_variance

MIN_STATES = 3


def pooled_terms(x_N: np.ndarray, y_N: np.ndarray) -> dict[str, np.ndarray]:
    """Terms of `pearson` over all states; both are centred first, which it does not see."""
    dx_N = np.asarray(x_N, float) - np.mean(x_N)
    dy_N = np.asarray(y_N, float) - np.mean(y_N)
    return {"one": np.ones(len(dx_N)), "x": dx_N, "y": dy_N} | _products(dx_N, dy_N)


def pearson(sums: Sums) -> np.ndarray:
    """Pearson's correlation of `pooled_terms`; NaN where x or y does not vary.

    (1, 2, 3, 4) with (1, 3, 2, 4): covariance sum 4, sums of squares 5 and 5: 0.8.
    """
    num = sums["one"]
    covariance = ratio(sums["xy"] - ratio(sums["x"] * sums["y"], num), num - 1)
    return ratio(covariance, np.sqrt(variance(sums, "x", "xx") * variance(sums, "y", "yy")))


def deviations(x_N: np.ndarray, problem_N: Sequence[Any] | np.ndarray) -> np.ndarray:
    """x less the mean over the states of its problem: (1, 3 | 4) gives (−1, 1 | 0)."""
    index_N, _ = cluster_index(problem_N)
    x_N = np.asarray(x_N, dtype=float)
    means_C = np.bincount(index_N, x_N) / np.bincount(index_N)
    return _without_rounding(x_N - means_C[index_N], x_N)


def within_terms(
    x_N: np.ndarray, y_N: np.ndarray, problem_N: Sequence[Any] | np.ndarray
) -> dict[str, np.ndarray]:
    """Terms of `within`: deviations of the states from their problem's mean, of both."""
    return _products(deviations(x_N, problem_N), deviations(y_N, problem_N))


def within(sums: Sums) -> np.ndarray:
    """Σ dx·dy / √(Σ dx² · Σ dy²) over the deviations from problem means; NaN where one is all 0.

    Every problem counts by how much its states vary. With `ranks_within` of x and y put in for
    them it is the within-problem version of Spearman's.

    x = (0, 1 | 5, 7), y = (0, 1 | 9, 3) of two problems: dx = (∓½ | ∓1), dy = (∓½ | ±3):
    Σ dx·dy = ½ − 6, Σ dx² = 2.5, Σ dy² = 18.5: −0.809.
    """
    return ratio(sums["xy"], np.sqrt(sums["xx"] * sums["yy"]))


def ranks_within(x_N: np.ndarray, problem_N: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Ranks from 1 among the states of the same problem, ties sharing their mean rank.

    (5, 7, 7 | 9, 8): (1, 2.5, 2.5 | 2, 1).
    """
    return pd.Series(x_N).groupby(np.asarray(problem_N)).rank().to_numpy()


def problem_correlations(
    x_N: np.ndarray, y_N: np.ndarray, problem_N: Sequence[Any] | np.ndarray
) -> np.ndarray:
    """The Pearson correlation within each problem, [C], problems in ascending order.

    NaN where a problem has fewer than 3 states or x or y is constant in it: such problems are left
    out of the average, `bootstrap.mean` of `bootstrap.mean_terms` of these with `range(C)` as
    clusters. Every problem then counts alike. With `ranks_within` of both it is Spearman's.

    (1, 2, 3 | 1, 2) with (2, 4, 6 | 5, 1): (1, NaN).
    """
    index_N, num_problems = cluster_index(problem_N)
    sums = {
        name: np.bincount(index_N, of_N, minlength=num_problems)
        for name, of_N in within_terms(x_N, y_N, problem_N).items()
    }
    return np.where(np.bincount(index_N) < MIN_STATES, np.nan, within(sums))


def spearman(x_N: np.ndarray, y_N: np.ndarray) -> Callable[[np.ndarray], float]:
    """Spearman's correlation over all states as a function of integer weights [N].

    The Pearson correlation of the mean ranks that the states have when each stands there as often
    as its weight says: what a resample needs, for `bootstrap.bootstrap_weights`. NaN where x or y
    does not vary.

    (1, 2, 3, 4) with (1, 3, 2, 9): 1 − 6·2/60 = 0.8 at weights 1.
    """
    places_2N = [np.unique(of_N, return_inverse=True)[1] for of_N in (x_N, y_N)]

    def rank_deviations(place_N: np.ndarray, weights_N: np.ndarray) -> np.ndarray:
        at_place = np.bincount(place_N, weights_N)
        ranks_N = (np.cumsum(at_place) - (at_place - 1) / 2)[place_N]
        return _without_rounding(ranks_N - np.average(ranks_N, weights=weights_N), ranks_N)

    def weighted(weights_N: np.ndarray) -> float:
        products = _products(*(rank_deviations(place_N, weights_N) for place_N in places_2N))
        return float(within({name: weights_N @ of_N for name, of_N in products.items()}))

    return weighted


def _products(dx_N: np.ndarray, dy_N: np.ndarray) -> dict[str, np.ndarray]:
    return {"xx": dx_N**2, "yy": dy_N**2, "xy": dx_N * dy_N}


def _without_rounding(dx_N: np.ndarray, x_N: np.ndarray) -> np.ndarray:
    """Exactly 0 where x is its mean but for rounding: a constant must not correlate."""
    return np.where(np.abs(dx_N) > NEGLIGIBLE * np.max(np.abs(x_N)), dx_N, 0.0)


def reliability(sums: Sums) -> np.ndarray:
    """Share of the variance of the measured truth that is no noise: 1 − τ/Var(t), of `truth_terms`.

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

    For an interval put the terms of both together: `pooled_terms(…) | truth_terms(…)`, or
    `within_terms(…) | within_reliability_terms(…)`; their names do not meet.

    Not cut at 1, which it passes by chance; NaN where ρ is not positive.
    """
    return ratio(np.asarray(correlation, dtype=float), np.nan_to_num(ceiling(reliability)))
