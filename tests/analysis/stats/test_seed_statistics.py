"""Numbers over seeds: by hand, against enumeration, rliable and scipy; times of unfinished runs."""

from itertools import product

import numpy as np
import pytest

from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import (
    area_under_curve,
    common_support,
    crossing,
    interquartile_mean,
    iqm,
    iqm_difference,
)


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


def test_the_interval_over_seeds_by_hand():
    # The middle three of five resampled seeds hold two ones where three of the five are ones:
    # 5.8 % of resamples have three or more, 0.7 % four or more.
    estimate = iqm([0.0, 0.0, 1.0, 0.0, 0.0])
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0, 0, 2 / 3))
    # Of two seeds a quarter of the resamples is all the lower one, a quarter all the higher one.
    assert iqm([0.25, 0.75]) == Estimate(0.5, 0.25, 0.75)


def test_the_interval_over_seeds_is_that_of_all_resamples():
    scores = [0.1, 0.35, 0.42, 0.58, 0.9]
    every = interquartile_mean(np.array(list(product(scores, repeat=5))))
    estimate = iqm(scores)
    # 10,000 draws have a standard error of 0.16 % in the 2.5 % quantile: 5 of them.
    for found, level in ((estimate.low, 0.025), (estimate.high, 0.975)):
        assert np.quantile(every, level - 0.008) <= found <= np.quantile(every, level + 0.008)


def test_one_seed_has_no_interval():
    assert iqm([0.5]) == Estimate(0.5, None, None)
    assert iqm_difference([0.75], [0.5]) == Estimate(0.25, None, None)
    assert iqm_difference([0.75, 0.5, 0.25], [0.25]) == Estimate(0.25, None, None)


def test_the_difference_of_methods_by_hand():
    # IQMs 0.5 and 0.25; each method's all-high and all-low resamples are a quarter of its own, so
    # the farthest differences come up in a sixteenth: above 2.5 %.
    assert iqm_difference([0.25, 0.75], [0.0, 0.5]) == Estimate(0.25, -0.25, 0.75)
    # Were both resampled alike, equal scores would never differ.
    equal = iqm_difference([0.0, 1.0, 0.5], [0.0, 1.0, 0.5])
    assert equal.value == 0
    assert equal.low == pytest.approx(-2 / 3, abs=0.2)
    assert equal.high == pytest.approx(2 / 3, abs=0.2)


def test_areas_by_hand():
    assert area_under_curve([0, 2, 6], [0.0, 0.5, 1.0]) == (2 * 0.25 + 4 * 0.75) / 6
    assert area_under_curve([0, 1, 2, 3], [0.0, 1.0, 1.0, 0.0]) == 2 / 3
    assert area_under_curve([5], [0.3]) == 0.3
    assert area_under_curve((0, 10, 20), (0, 1, 1), 5, 15) == 0.875
    assert common_support([(0, 10, 20), (5, 30)]) == (5, 20)
    assert common_support([(0, 5), (5, 9)]) is None


def test_where_a_curve_first_reaches_a_cost():
    assert crossing((0, 1, 3), (0.2, 0.6, 0.8), 2) == pytest.approx(0.7)
    assert crossing((0, 1, 3), (0.2, 0.6, 0.8), 0) == 0.2
    assert crossing((0, 1, 3), (0.2, 0.6, 0.8), 3) == 0.8
    assert crossing((0, 2, 1, 3), (0.0, 1.0, 0.5, 0.7), 1.5) == 0.75  # not on its way back
    for level in (-0.1, 3.1):
        with pytest.raises(ValueError, match="level must be in"):
            crossing((0, 1, 3), (0.2, 0.6, 0.8), level)
