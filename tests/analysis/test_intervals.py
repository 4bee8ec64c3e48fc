"""Intervals against normal limits, against enumeration, and by hand."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from analysis.intervals import (
    Estimate,
    bootstrap_interval,
    iqm_difference,
    iqm_over_seeds,
    probability_of_improvement,
)
from analysis.stats.seed_bootstrap import interquartile_mean


def test_the_bootstrap_interval_is_that_of_the_normal_limit():
    rates_P = [0.0, 0.25, 0.5, 0.75, 1.0] * 80
    low, high = bootstrap_interval(rates_P, seed=0, num_resamples=4_000)
    half_width = 1.96 * np.std(rates_P) / math.sqrt(len(rates_P))
    assert low == pytest.approx(0.5 - half_width, abs=0.1 * half_width)
    assert high == pytest.approx(0.5 + half_width, abs=0.1 * half_width)
    assert bootstrap_interval(rates_P, seed=0) == bootstrap_interval(rates_P, seed=0)


def test_rates_that_are_all_equal_leave_no_doubt():
    assert bootstrap_interval([0.5] * 9, 0) == (0.5, 0.5)


def test_the_interval_over_seeds_by_hand():
    # The middle three of five resampled seeds hold two ones where three of the five are ones:
    # 5.8 % of resamples have three or more, 0.7 % four or more.
    estimate = iqm_over_seeds([0.0, 0.0, 1.0, 0.0, 0.0])
    assert (estimate.value, estimate.low) == (0, 0)
    assert estimate.high == pytest.approx(2 / 3)
    # Of two seeds a quarter of the resamples is all the lower one, a quarter all the higher one.
    assert iqm_over_seeds([0.25, 0.75]) == Estimate(0.5, 0.25, 0.75)


def test_the_interval_over_seeds_is_that_of_all_resamples():
    scores = [0.1, 0.35, 0.42, 0.58, 0.9]
    every = interquartile_mean(np.array(list(product(scores, repeat=5))))
    estimate = iqm_over_seeds(scores)
    # 10,000 draws have a standard error of 0.16 % in the 2.5 % quantile: 5 of them.
    for found, level in ((estimate.low, 0.025), (estimate.high, 0.975)):
        assert np.quantile(every, level - 0.008) <= found <= np.quantile(every, level + 0.008)


def test_the_interval_shifts_and_scales_with_the_scores_and_is_always_the_same():
    scores = np.array([0.1, 0.35, 0.42, 0.58, 0.9])
    one, other = iqm_over_seeds(scores), iqm_over_seeds(0.5 * scores + 2)
    assert (other.value, other.low, other.high) == pytest.approx(
        (0.5 * one.value + 2, 0.5 * one.low + 2, 0.5 * one.high + 2)
    )
    assert iqm_over_seeds(scores) == one


def test_one_seed_has_no_interval():
    assert iqm_over_seeds([0.5]) == Estimate(0.5, None, None)
    assert iqm_difference([0.75], [0.5]) == Estimate(0.25, None, None)
    assert iqm_difference([0.75, 0.5, 0.25], [0.25]) == Estimate(0.25, None, None)
    assert probability_of_improvement([0.75], [0.5, 0.25]) == Estimate(1, None, None)


def test_the_difference_of_methods_by_hand():
    # IQMs 0.5 and 0.25; each method's all-high and all-low resamples are a quarter of its own, so
    # the farthest differences come up in a sixteenth: above 2.5 %.
    assert iqm_difference([0.25, 0.75], [0.0, 0.5]) == Estimate(0.25, -0.25, 0.75)
    # Were both resampled alike, equal scores would never differ.
    equal = iqm_difference([0.0, 1.0, 0.5], [0.0, 1.0, 0.5])
    assert equal.value == 0
    assert equal.low == pytest.approx(-2 / 3, abs=0.2)
    assert equal.high == pytest.approx(2 / 3, abs=0.2)


def test_the_probability_of_improvement_by_hand():
    estimate = probability_of_improvement([1, 2, 3], [0, 2, 9])
    assert estimate.value == 0.5  # 4 wins and a tie of 9 pairs
    assert 0 <= estimate.low < 0.5 < estimate.high <= 1
    assert probability_of_improvement([2, 3, 4], [0, 1]) == Estimate(1, 1, 1)
    assert probability_of_improvement([1, 1], [1, 1, 1]) == Estimate(0.5, 0.5, 0.5)


def test_the_probability_of_improvement_is_the_mann_whitney_statistic():
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 6, 5), generator.integers(0, 6, 7)
    expected = mannwhitneyu(x, y).statistic / 35
    found, turned = probability_of_improvement(x, y), probability_of_improvement(y, x)
    assert found.value == pytest.approx(expected)
    assert found.value + turned.value == pytest.approx(1)
