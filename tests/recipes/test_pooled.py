"""Pooled values: what passes a state counts there, but for the rollout itself."""

from dataclasses import replace

import pytest
from support.chains import VALUES, made, means_after, score_covariances
from support.rollouts import VINE
from support.walks import demo

from vineppo.config.schema import MonteCarloValues, ValuesConfig
from vineppo.recipes.pooled import Pooled, num_shared

OWN = Pooled.Config(of="monte_carlo", kind="pooled")
SHARE = Pooled("pooled", demo(), OWN)
SEPARATE = Pooled(
    "pooled", replace(demo(), credit=replace(VINE, identical_prefixes="separate")), OWN
)


def values(rollouts, predictor=SHARE):
    predictor.estimate(rollouts)
    return [list(one.values_S("pooled")) for one in rollouts]


def group(first_reward=0, first_later=(0,)):
    """Three rollouts; the first two share a token more than the third, in steps of other ends."""
    return [
        made("p", 0, (5, 6, 7), first_reward, [(1,), (0,), first_later], [1, 1, 1]),
        made("p", 1, (5, 6, 8), 1, [(1,), (1,)], [2, 1]),
        made("p", 2, (5, 9), 0, [(1,), (1,)], [1, 1]),
    ]


def test_the_documented_value():
    first = made("p", 0, (5, 6, 7), 0, [(1,), (0,)], [2, 1])
    second = made("p", 1, (5, 6, 8), 1, [(1,), (0,)], [2, 1])
    found = values([first, second])
    assert (found[0][1], found[1][1]) == (0.5, 0.0)
    assert num_shared((5, 6, 7), (5, 6, 8)) == num_shared((5, 6), (5, 6, 8)) == 2


def test_all_others_that_pass_count_and_none_else():
    elsewhere = made("q", 0, (5, 6, 7), 1, [(0, 1)])
    assert values([*group(), elsewhere]) == [
        # Before all: the continuation, and the others' rewards 1 and 0. After (5): both as well.
        [(1 + 1 + 0) / 3, (0 + 1 + 0) / 3, (0 + 1) / 2],
        [(1 + 0 + 0) / 3, (1 + 0) / 2],
        [(1 + 0 + 1) / 3, (1 + 0 + 1) / 3],
        [0.5],
    ]


def test_continuations_that_are_kept_apart_are_pooled_as_well():
    """The states before all, of all three; (5), of first and third; (5, 6), of first and second."""
    assert values(group(), SEPARATE) == [
        [(3 * 1 + 1 + 0) / 5, (0 + 1 + 1 + 0) / 4, (0 + 1 + 1) / 3],
        [(3 * 1 + 0 + 0) / 5, (1 + 0 + 0) / 3],
        [(3 * 1 + 0 + 1) / 5, (1 + 0 + 0 + 1) / 4],
    ]


def test_it_reads_another_predictor():
    further = {"many": MonteCarloValues("monte_carlo", 3, "separate", None)}
    config = replace(demo(), values=ValuesConfig(None, further))
    rollouts = group()
    for one in rollouts:
        one.returns_S = {"many": one.returns_S["monte_carlo"]}
    predictor = Pooled("pooled", config, replace(OWN, of="many"))
    assert values(rollouts, predictor) == values(group(), SEPARATE)


def test_by_enumeration_it_is_a_fair_baseline_and_unbiased_after_every_action():
    assert score_covariances(SHARE.estimate, "pooled") == pytest.approx((0, 0), abs=1e-12)
    assert means_after(SHARE.estimate, "pooled") == pytest.approx(VALUES)
