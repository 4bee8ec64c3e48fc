"""The interquartile mean, its stratified bootstrap and probabilities of improvement."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, trim_mean

from analysis.stats.estimate import Estimate
from analysis.stats.seed_bootstrap import (
    draw_seeds,
    interquartile_mean,
    iqm,
    iqm_difference,
    probability_of_improvement,
)

SETTINGS = {"num_resamples": 10_000, "level": 0.95}


def generator():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.3], 0.3),
        ([0.0, 0.5, 1.0], 0.5),  # three scores lose none
        ([0.0, 0.2, 0.4, 9.0], 0.3),  # four lose one at each end
        ([0.5, 0.1, 0.7, 0.9, 0.6], 0.6),
        ([8, 7, 6, 5, 4, 3, 2, 100], 5.5),  # eight lose two: 4 + 5 + 6 + 7 remain
    ],
)
def test_the_interquartile_mean_by_hand(scores, expected):
    assert interquartile_mean(np.array(scores)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("num_seeds", range(1, 14))
def test_the_interquartile_mean_is_the_trimmed_mean_of_scipy(num_seeds):
    scores = np.random.default_rng(num_seeds).normal(size=(3, num_seeds))
    assert np.allclose(interquartile_mean(scores), trim_mean(scores, 0.25, axis=1))


def test_the_examples_of_the_docstrings():
    estimate = iqm([[0, 0, 0, 0, 1]], generator(), **SETTINGS)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0, 0, 2 / 3))
    assert iqm_difference([[0.25, 0.75]], [[0, 0.5]], generator(), **SETTINGS) == Estimate(
        0.25, -0.25, 0.75
    )
    wins = probability_of_improvement([[1, 2, 3]], [[0, 2, 9]], generator(), **SETTINGS)
    assert wins.value == 0.5


def test_the_stratified_interval_is_that_of_all_resamples_and_scipys_trimmed_mean():
    tasks = [0.1, 0.35, 0.5], [0.6, 0.7, 0.95, 1.0]
    # Every resample of each task's own seeds with every one of the other's: 27 · 256, all equal.
    every = np.array(
        [
            trim_mean([*one, *other], 0.25)
            for one in product(tasks[0], repeat=3)
            for other in product(tasks[1], repeat=4)
        ]
    )
    found = iqm(tasks, generator(), **SETTINGS)
    assert found.value == pytest.approx(trim_mean([*tasks[0], *tasks[1]], 0.25))
    # 10,000 draws have a standard error of 0.16 % in the 2.5 % quantile: 5 of them.
    for bound, level in ((found.low, 0.025), (found.high, 0.975)):
        assert np.quantile(every, level - 0.008) <= bound <= np.quantile(every, level + 0.008)
    # Redrawn across tasks the scores would scatter more.
    pooled = iqm([[*tasks[0], *tasks[1]]], generator(), **SETTINGS)
    assert pooled.high - pooled.low > 1.3 * (found.high - found.low)


def test_a_curve_is_resampled_as_a_whole():
    curves_NT = np.array([[0.1, 0.4, 0.5], [0.2, 0.3, 0.9], [0.0, 0.8, 0.7], [0.3, 0.3, 0.3]])
    drawn_RN = draw_seeds(4, 5000, generator())
    band_RT = interquartile_mean(np.moveaxis(curves_NT[drawn_RN], 1, -1))
    by_point = iqm([curves_NT[:, 1]], generator(), num_resamples=5000, level=0.9)
    assert np.quantile(band_RT[:, 1], [0.05, 0.95]) == pytest.approx((by_point.low, by_point.high))


def test_the_probability_of_improvement_averages_the_mann_whitney_statistics_of_tasks():
    draw = np.random.default_rng(1)
    methods = [[draw.integers(0, 6, num) for num in nums] for nums in ((5, 3), (7, 4))]
    expected = [
        mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(*methods, strict=True)
    ]
    found = probability_of_improvement(*methods, generator(), **SETTINGS)
    assert found.value == pytest.approx(np.mean(expected))
    assert 0 <= found.low < found.value < found.high <= 1
    certain = probability_of_improvement(
        [[2, 3], [5, 5]], [[0, 1], [4, 4]], generator(), **SETTINGS
    )
    assert certain == Estimate(1, 1, 1)


def test_the_numbers_are_those_of_rliable():
    """Of rliable 1.2.0: those of its own tests, then ones that it gave for two made-up methods.

    Its intervals were made of 100,000 resamples, that of the probability of 4,000.
    """
    x, y = [[1, 2, 1, 2], [2, 2, 1, 1]], [[1, 2, 3], [1, 2, 3]]
    assert iqm(x, generator(), **SETTINGS).value == 1.5
    assert iqm(y, generator(), **SETTINGS).value == 2
    wins = probability_of_improvement(x, y, generator(), **SETTINGS)
    assert wins.value == pytest.approx(1 / 3)

    x = [[0.41, 0.17, 0.78, 0.25, 0.71], [0.31, 0.42, 0.73, 0.21, 0.87],
         [0.78, 0.91, 0.73, 0.62, 1.1]]  # fmt: skip
    y = [[0.09, 0.68, 0.64, 0.06], [0.51, 0.67, 0.73, 0.52], [0.7, 0.81, 0.62, 0.98]]
    of_x, of_y = (iqm(scores, generator(), **SETTINGS) for scores in (x, y))
    wins = probability_of_improvement(x, y, generator(), **SETTINGS)
    assert (of_x.value, of_y.value, wins.value) == pytest.approx((0.61, 0.6383333, 0.55))
    # Five standard errors of the quantiles, all resamples' together.
    assert (of_x.low, of_x.high) == pytest.approx((0.4577778, 0.7522222), abs=0.01)
    assert (of_y.low, of_y.high) == pytest.approx((0.5116667, 0.7), abs=0.01)
    assert (wins.low, wins.high) == pytest.approx((0.3166667, 0.775), abs=0.03)


def test_one_seed_of_any_task_leaves_no_interval():
    assert iqm([[0.5, 0.7], [0.6]], generator(), **SETTINGS) == Estimate(
        pytest.approx(0.6), None, None
    )
    with pytest.raises(ValueError, match="strata must be the same, got 1 and 2"):
        probability_of_improvement([[1, 2]], [[1], [2]], generator(), **SETTINGS)
