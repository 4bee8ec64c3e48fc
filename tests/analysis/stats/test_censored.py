"""Kaplan–Meier by hand and against scipy; without censoring it is the plain distribution."""

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf

from analysis.stats.censored import kaplan_meier, median_time, restricted_mean, time_to_target

# Times 3, 5+, 6, 6, 8+
BY_HAND = kaplan_meier([6, 3, 5, 8, 6], [True, True, False, False, True])


def test_the_examples_of_the_docstrings():
    assert time_to_target((0, 10, 20), (0.3, 0.6, 0.5), 0.5) == (10, True)
    assert time_to_target((0, 10, 20), (0.3, 0.6, 0.5), 0.7) == (20, False)
    assert BY_HAND.times == (3, 6)
    assert BY_HAND.shares == pytest.approx((4 / 5, 4 / 15))
    assert BY_HAND.last == 8
    assert median_time(BY_HAND) == 6
    assert restricted_mean(BY_HAND, 8) == pytest.approx(3 + 3 * 0.8 + 2 * 4 / 15)


@pytest.mark.parametrize(
    ("horizon", "expected"), [(0, 0), (2, 2), (3, 3), (4, 3.8), (6, 5.4), (7, 5.4 + 4 / 15)]
)
def test_the_restricted_mean_by_hand(horizon, expected):
    assert restricted_mean(BY_HAND, horizon) == pytest.approx(expected)


def test_without_censoring_all_is_as_in_the_sample():
    times = [4.0, 1.0, 7.0, 4.0, 9.0]
    survival = kaplan_meier(times, [True] * 5)
    assert median_time(survival) == np.median(times)
    for horizon in (0.5, 4, 8, 9, 30):
        assert restricted_mean(survival, horizon) == pytest.approx(
            np.minimum(times, horizon).mean()
        )
    # Two of four have got there at 2: S is exactly one half.
    assert median_time(kaplan_meier([1, 2, 3, 4], [True] * 4)) == 2


@pytest.mark.parametrize("seed", range(5))
def test_the_estimate_is_that_of_scipy(seed):
    draw = np.random.default_rng(seed)
    times, is_reached = draw.integers(1, 12, 20), draw.random(20) < 0.6
    survival = kaplan_meier(times, is_reached)
    expected = ecdf(CensoredData.right_censored(times, ~is_reached)).sf
    assert survival.shares == pytest.approx(expected.evaluate(np.array(survival.times)))


def test_runs_that_never_reach_it_make_the_time_longer_and_not_shorter():
    reached = kaplan_meier([3, 5, 9], [True] * 3)
    lost = kaplan_meier([3, 5, 9], [True, False, False])
    assert restricted_mean(lost, 9) > restricted_mean(reached, 9)
    # More than half had not reached it when last seen.
    assert median_time(lost) is None
    never = kaplan_meier([4, 6], [False, False])
    assert (never.times, median_time(never)) == ((), None)
    assert restricted_mean(never, 5) == 5


def test_times_beyond_what_was_watched_and_senseless_ones_are_refused():
    with pytest.raises(ValueError, match=r"horizon must be in 0\.\.8\.0, got 9"):
        restricted_mean(BY_HAND, 9)
    with pytest.raises(ValueError, match=r"horizon must be in 0\.\.6\.0, got 7"):
        restricted_mean(kaplan_meier([4, 6], [False, False]), 7)
    with pytest.raises(ValueError, match="got 0 times"):
        kaplan_meier([], [])
    with pytest.raises(ValueError, match="times_N must be finite and not negative"):
        kaplan_meier([1, np.inf], [True, False])
