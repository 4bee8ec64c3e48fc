"""Smoothed values: the model by enumeration of its paths, fairness, errors on chains that break."""

from itertools import product

import numpy as np
import pytest
from support.chains import VALUES, means_after, score_covariances
from support.walks import demo

from vineppo.recipes.smoothed import LEVELS, PRIOR, Smoothed, smoothed
from vineppo.types import StateValue

DIRECTIONS = ("causal", "both")


def predictor(direction, change=0.2):
    own = Smoothed.Config(of="monte_carlo", kind="smoothed", change=change, direction=direction)
    return Smoothed("smoothed", demo(), own)


def states(*returns_S):
    return [StateValue(returns_K, 0) for returns_K in returns_S]


def test_the_documented_value_and_the_prior():
    (found,) = smoothed(states((1.0,)), 0.1, is_causal=True)
    assert found == pytest.approx(0.752, abs=5e-4)
    assert PRIOR.sum() == pytest.approx(1)
    assert pytest.approx(0.5) == PRIOR @ LEVELS
    assert pytest.approx(PRIOR[::-1]) == PRIOR


@pytest.mark.parametrize("change", [0.0, 0.15, 1.0])
def test_it_is_the_mean_over_all_paths_of_the_model(change):
    """21³ paths of three states, each with its probability and that of the returns."""
    returns_S = [(1.0, 0.0), (1.0, 0.25), (0.0, 0.0)]
    likely_SL = np.array([LEVELS ** sum(r) * (1 - LEVELS) ** (len(r) - sum(r)) for r in returns_S])
    step_LL = (1 - change) * np.eye(21) + change * PRIOR
    causal, both = np.zeros((3, 2)), np.zeros((3, 2))
    for path in product(range(21), repeat=3):
        prior = PRIOR[path[0]]
        weights = [prior * likely_SL[0, path[0]]]
        for i in (1, 2):
            weights.append(weights[-1] * step_LL[path[i - 1], path[i]] * likely_SL[i, path[i]])
        for i, level in enumerate(path):
            both[i] += weights[2] * np.array([LEVELS[level], 1])
            if not any(path[i + 1 :]):  # once for every path up to i
                causal[i] += weights[i] * np.array([LEVELS[level], 1])
    for is_causal, sums in ((True, causal), (False, both)):
        found = smoothed(states(*returns_S), change, is_causal)
        assert found == pytest.approx(list(sums[:, 0] / sums[:, 1]))


def test_many_returns_do_not_underflow():
    found = smoothed(states((1.0, 0.0) * 2000, (0.0,) * 4000), 0.1, is_causal=False)
    assert found == pytest.approx([0.5, 0.0], abs=1e-6)


def test_by_enumeration_causal_is_a_fair_baseline_and_both_is_not():
    """A likely reward after the action 1 is in the value before it, so that credit is lost."""
    causal, both = (predictor(direction) for direction in DIRECTIONS)
    assert score_covariances(causal.estimate, "smoothed") == pytest.approx((0, 0), abs=1e-12)
    first, second = score_covariances(both.estimate, "smoothed")
    assert first > 0.01
    assert second == pytest.approx(0, abs=1e-12)  # nothing comes after the last state
    for one in (causal, both):
        after = means_after(one.estimate, "smoothed")
        assert after[0] > VALUES[0] + 0.02
        assert after[1] < VALUES[1] - 0.05
