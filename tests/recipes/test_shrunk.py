"""Shrunk values: the moments by hand, and fairness by enumeration."""

import numpy as np
import pytest
from support.chains import VALUES, made, means_after, score_covariances
from support.walks import demo

from vineppo.recipes.shrunk import Shrunk, Variances, sums_of, towards_previous, towards_siblings
from vineppo.types import StateValue

MODES = ("siblings", "previous")


def shrunk(toward):
    return Shrunk("shrunk", demo(), Shrunk.Config(of="monte_carlo", kind="shrunk", toward=toward))


def values(rollouts, toward):
    shrunk(toward).estimate(rollouts)
    return [list(one.values_S("shrunk")) for one in rollouts]


def states(*returns_S):
    return [StateValue(returns_K, 0) for returns_K in returns_S]


def test_the_documented_numbers():
    assert towards_siblings(states((1.0, 1.0)), 0.25, Variances()) == [pytest.approx(0.75)]
    assert towards_previous(states((1.0,), (1.0,)), 0.0, Variances()) == pytest.approx([0.5, 0.8])
    assert sums_of(states((1.0, 0.0), (0.0, 0.0)), 0.0, 0.0) == pytest.approx(
        np.array([[2, 2, 1, 1], [1 / 3, 1 / 4, 1 / 4, 1 / 4], [0, 1, 1 / 2, 1]])
    )


def test_the_variances_are_what_is_beyond_the_noise_of_means():
    """Twice the documented sums and a step more: σ² = (1/3)/2, τ² = 1/8 − σ²/2 …"""
    sums = np.array([[2, 2, 1, 1], [1 / 3, 1 / 4, 1 / 4, 1 / 4], [0, 1, 1 / 2, 1]])
    found = Variances.of(2 * sums)
    assert found.within == pytest.approx(1 / 6)
    assert found.states == pytest.approx(1 / 8 - 1 / 12)
    assert found.roots == pytest.approx(1 / 4 - 1 / 12)
    assert found.steps == pytest.approx(1 / 4 - 1 / 6)
    noisy = np.array([[2, 2, 1, 1], [2, 0, 0, 0], [0, 1, 1 / 2, 1]])
    assert Variances.of(noisy) == Variances(1.0, 0.0, 0.0, 0.0)  # none below 0


def alone():
    return [
        made("p", 0, (5, 6), 1, [(1, 1), (1, 0)]),
        made("p", 1, (5, 7), 0, [(1, 1), (0, 0)]),
        made("p", 2, (8, 7), 1, [(1, 1), (1, 0)]),
    ]


def test_a_problem_alone_weighs_k_to_one():
    """w = 2/3 and siblings of mean 1/2, 1, 1/2."""
    expected = [[5 / 6, 1 / 2], [1, 1 / 3], [5 / 6, 1 / 2]]
    assert values(alone(), "siblings") == [pytest.approx(values_S) for values_S in expected]
    (first, *_) = values(alone(), "previous")
    # g = 2/3 and P = 1/3, then g = (4/3) / (4/3 + 1/2) = 8/11.
    assert first == pytest.approx([5 / 6, 5 / 6 - 8 / 11 * (5 / 6 - 1 / 2)])


def test_others_say_how_much_the_returns_are_to_be_believed():
    """Where nothing is random but the states differ, all; where only noise is, nothing."""
    sure = [
        made("q", 0, (5, 6), 1, [(1, 1), (1, 1)]),
        made("q", 1, (5, 7), 1, [(1, 1), (1, 1)]),
        made("q", 2, (5, 7), 0, [(0, 0), (0, 0)]),
    ]
    rollouts = [*alone(), *sure]
    for toward in MODES:
        assert values(rollouts, toward)[:3] == [[1, 0.5], [1, 0], [1, 0.5]]
    noise = [made("q", i, (5, 6), i % 2, [(1, 0), (0, 1)]) for i in range(4)]
    for toward in MODES:
        found = values([*alone(), *noise], toward)[:3]
        assert found == [pytest.approx([m, m]) for m in (0.5, 1, 0.5)]


@pytest.mark.parametrize("toward", MODES)
def test_by_enumeration_it_is_a_fair_baseline_and_biased_after_an_action(toward):
    predictor = shrunk(toward)
    assert score_covariances(predictor.estimate, "shrunk") == pytest.approx((0, 0), abs=1e-12)
    after = means_after(predictor.estimate, "shrunk")
    assert after[0] > VALUES[0] + 0.02
    assert after[1] < VALUES[1] - 0.05
