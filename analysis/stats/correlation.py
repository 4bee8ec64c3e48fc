"""Correlations of predictions with the measured truth, over all states and within problems.

Pooled correlations also reward knowing which *problem* is hard. Within a problem only what happens
along its responses is left, which is what credit assignment needs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.stats.bootstrap import NEGLIGIBLE, Sums, cluster_index, ratio, variance


def pooled_terms(x_N: np.ndarray, y_N: np.ndarray) -> dict[str, np.ndarray]:
    """Terms of `pearson` over all states; both are centred first, which it does not see."""
    num = max(len(x_N), 1)  # there may be none
    dx_N, dy_N = x_N - np.sum(x_N) / num, y_N - np.sum(y_N) / num
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

    Every problem counts by how much its states vary.

    x = (0, 1 | 5, 7), y = (0, 1 | 9, 3) of two problems: dx = (∓½ | ∓1), dy = (∓½ | ±3):
    Σ dx·dy = ½ − 6, Σ dx² = 2.5, Σ dy² = 18.5: −0.809.
    """
    return ratio(sums["xy"], np.sqrt(sums["xx"] * sums["yy"]))


def difference_terms(
    x_N: np.ndarray, y_N: np.ndarray, noise_N: np.ndarray, rollout_N: np.ndarray, step_N: np.ndarray
) -> dict[str, np.ndarray]:
    """Terms of `differences`: the change from each state to the next step's of its rollout, if any.

    `noise_N` is the variance of y's error.
    """
    order_N = np.lexsort((step_N, rollout_N))
    here, there = order_N[:-1], order_N[1:]
    is_next = (rollout_N[here] == rollout_N[there]) & (step_N[there] == step_N[here] + 1)
    here, there = here[is_next], there[is_next]
    found = pooled_terms(x_N[there] - x_N[here], y_N[there] - y_N[here])
    found["noise"] = noise_N[there] + noise_N[here]
    terms = {name: np.zeros(len(x_N)) for name in found}
    for name, values in found.items():
        terms[name][here] = values
    return terms


def differences(sums: Sums) -> np.ndarray:
    """Pearson's correlation of `difference_terms`, corrected for the noise of y.

    NaN where x does not vary, or y not more than its noise. x of a rollout's steps (0, 1, 1),
    y (0, 3, 4), noise ¼ each: changes (1, 0) and (3, 1), variances ½ and 2 − ½, covariance 1: 1.155
    """
    num = sums["one"]
    covariance = ratio(sums["xy"] - ratio(sums["x"] * sums["y"], num), num - 1)
    y_variance = variance(sums, "y", "yy") - ratio(sums["noise"], num)
    return ratio(covariance, np.sqrt(variance(sums, "x", "xx") * np.maximum(y_variance, 0)))


def _products(dx_N: np.ndarray, dy_N: np.ndarray) -> dict[str, np.ndarray]:
    return {"xx": dx_N**2, "yy": dy_N**2, "xy": dx_N * dy_N}


def _without_rounding(dx_N: np.ndarray, x_N: np.ndarray) -> np.ndarray:
    """Exactly 0 where x is its mean up to rounding: a constant must not correlate."""
    return np.where(np.abs(dx_N) > NEGLIGIBLE * np.max(np.abs(x_N)), dx_N, 0.0)
