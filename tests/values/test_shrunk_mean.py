"""A mean reward drawn towards other problems: the documented numbers, whose rewards, its gain."""

import random
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
from support.rollouts import rollout, terminal
from support.walks import demo

from vineppo.config.schema import ShrunkMeanValues
from vineppo.types import Problem
from vineppo.values.group_mean import GroupMean
from vineppo.values.shrunk_mean import ShrunkMean, shrinkage


def rollouts(rewards_PG):
    return [
        replace(rollout(terminal(reward, 3), lengths_S=[2, 1]), problem=Problem(f"p{p}", "", ""))
        for p, rewards_G in enumerate(rewards_PG)
        for reward in rewards_G
    ]


def shrunk(replay_iterations=0):
    return ShrunkMean("mean", demo(), ShrunkMeanValues("shrunk_mean", replay_iterations))


def valued(rewards_PG, predictor=None):
    """The values of every rollout, by problem."""
    found = rollouts(rewards_PG)
    (predictor or shrunk()).estimate(found)
    assert all(len(set(one.values_S("mean"))) == 1 for one in found)
    values = iter(one.values_S("mean")[0] for one in found)
    return [[next(values) for _ in rewards_G] for rewards_G in rewards_PG]


def test_the_documented_numbers():
    others = [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    weight, centre = shrinkage(others, 1)
    assert (weight, centre) == pytest.approx((2 / 5, 1 / 2))
    assert valued([[1.0, 0.0], *others])[0] == pytest.approx([0.4 / 2, 0.6 + 0.4 / 2])


def test_no_value_holds_the_rollouts_own_reward():
    before = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]
    after = [[0.0, 0.0, 1.0], *before[1:]]
    first, second = valued(before), valued(after)
    assert first[0][0] == second[0][0]
    assert first[0][1] != second[0][1]
    assert first[1] != second[1]  # by the mean of the other problems


def test_where_nothing_is_known_of_other_problems_it_is_the_others_mean():
    one, two = [[1.0, 0.0, 1.0]], [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    for rewards_PG in (one, two):
        assert valued(rewards_PG) == valued(rewards_PG, GroupMean("mean", demo()))
    assert valued([[1.0, 1.0]] * 3) == [[1.0, 1.0]] * 3


def test_one_rollout_a_problem_has_the_mean_of_the_other_problems():
    assert valued([[1.0], [0.0], [1.0]]) == [[0.5], [1.0], [0.5]]


def test_earlier_problems_count_also_after_a_resume(tmp_path):
    """Of two iterations one is remembered, as if its problems were of this one."""
    before, last, now = [[1.0, 1.0]] * 4, [[1.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]
    predictor = shrunk(1)
    for iteration, rewards_PG in ((1, before), (2, last)):
        predictor.update(rollouts(rewards_PG), iteration)
    expected = pytest.approx(np.array(valued([*now, *last])[:2]))
    assert np.array(valued(now, predictor)) == expected
    predictor.save_state(tmp_path / "mean")
    again = shrunk(1)
    again.load_state(tmp_path / "mean")
    assert np.array(valued(now, again)) == expected


@pytest.mark.parametrize("spread", [0.0, 0.15, 0.5])
def test_its_squared_error_is_below_that_of_the_others_mean(spread):
    """Of 4 problems of 4 rollouts, whose chances of success lie within ½ ± `spread`."""
    stream, remembers = random.Random(0), shrunk(10)
    errors: dict[object, list[float]] = {remembers: [], GroupMean("mean", demo()): []}
    for iteration in range(1000):
        chances = [0.5 + spread * stream.uniform(-1, 1) for _ in range(4)]
        rewards_PG = [[float(stream.random() < p) for _ in range(4)] for p in chances]
        for predictor, squares in errors.items():
            values = valued(rewards_PG, predictor)
            squares += [(v[0] - p) ** 2 for v, p in zip(values, chances, strict=True)]
        remembers.update(rollouts(rewards_PG), iteration)
    ours, theirs = map(fmean, errors.values())
    assert ours < 0.75 * theirs
