"""A mean reward drawn towards other problems: the documented numbers, whose rewards, its gain."""

import random
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest
from support.rollouts import rollout, terminal
from support.walks import demo

from vineppo.recipes.shrunk_mean import ShrunkMean, shrinkage
from vineppo.types import Problem
from vineppo.values.group_mean import GroupMean


def rollouts(rewards_PG):
    return [
        replace(rollout(terminal(reward, 3), lengths_S=[2, 1]), problem=Problem(f"p{p}", "", ""))
        for p, rewards_G in enumerate(rewards_PG)
        for reward in rewards_G
    ]


def shrunk(replay_iterations=0):
    return ShrunkMean("mean", demo(), ShrunkMean.Config("shrunk_mean", replay_iterations))


def valued(rewards_PG, predictor=None):
    """The values of every rollout, by problem."""
    found = rollouts(rewards_PG)
    (predictor or shrunk()).estimate(found)
    assert all(len(set(one.values_S("mean"))) == 1 for one in found)
    values = iter(one.values_S("mean")[0] for one in found)
    return [[next(values) for _ in rewards_G] for rewards_G in rewards_PG]


def test_the_documented_numbers():
    weights, centres = shrinkage([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert (weights[0], centres[0]) == pytest.approx((2 / 5, 1 / 2))


def test_each_problem_is_shrunk_by_the_moments_of_the_others():
    draw = np.random.default_rng(0)
    rewards_PG = draw.binomial(1, draw.uniform(0, 1, (20, 1)), (20, 3)).astype(float).tolist()
    weights, centres = shrinkage(rewards_PG, 5)
    assert len(weights) == 15
    for p, found in enumerate(zip(weights, centres, strict=True), 5):
        others = rewards_PG[:p] + rewards_PG[p + 1 :]
        means = [fmean(rewards) for rewards in others]
        within, spread = fmean(variance(rewards) for rewards in others), variance(means)
        of_centre = max(spread - within / 3, 0) + spread / 19
        assert found == pytest.approx((within / 2 / (within / 2 + of_centre), fmean(means)))
    value = valued(rewards_PG)[5][0]
    mean = fmean(rewards_PG[5][1:])
    assert value == pytest.approx(mean + weights[0] * (centres[0] - mean))


def test_no_value_holds_the_rollouts_own_reward():
    before = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]] * 4
    after = [[0.0, 0.0, 1.0], *before[1:]]
    first, second = valued(before), valued(after)
    assert first[0][0] == pytest.approx(second[0][0], abs=1e-12)
    assert first[0][1] != pytest.approx(second[0][1], abs=1e-3)
    assert first[1] != second[1]  # by the mean of the other problems


def test_where_too_little_is_known_of_other_problems_it_is_the_others_mean():
    few = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]] * 6
    assert valued(few) == valued(few, GroupMean("mean", demo()))
    more = [*few, [0.0, 0.0, 0.0]]
    assert valued(more) != valued(more, GroupMean("mean", demo()))
    assert valued([[1.0, 1.0]] * 13) == [[1.0, 1.0]] * 13


def test_one_rollout_a_problem_has_the_mean_of_the_other_problems():
    found = valued([[1.0], *[[0.0]] * 12])
    assert np.array(found) == pytest.approx(np.array([[0.0], *[[1 / 12]] * 12]))


def test_earlier_problems_count_also_after_a_resume_and_at_a_checkpoint(tmp_path):
    """One of two iterations is remembered, as if its problems were of this one."""
    before, last = [[1.0, 1.0]] * 4, [[1.0, 0.0], [1.0, 1.0]] * 6
    now = [[1.0, 0.0], [0.0, 0.0]]
    predictor = shrunk(1)
    for iteration, rewards_PG in ((1, before), (2, last)):
        predictor.update(rollouts(rewards_PG), iteration)
    expected = pytest.approx(np.array(valued([*now, *last])[:2]))
    assert np.array(valued(now, predictor)) == expected
    predictor.save_state(tmp_path / "mean")
    own = ShrunkMean.Config("shrunk_mean", 1)
    for again in (shrunk(1), ShrunkMean.at_checkpoint("mean", demo(), own, tmp_path)):
        if not again._earlier:
            again.load_state(tmp_path / "mean")
        assert np.array(valued(now, again)) == expected


def bimodal(stream):
    return stream.choice([0.05, 0.95])


@pytest.mark.parametrize(
    ("chance", "most"),
    [
        (lambda _: 0.5, 0.25),
        (lambda stream: stream.uniform(0.35, 0.65), 0.35),
        (lambda stream: stream.random(), 0.8),
        (bimodal, 1.05),
    ],
)
def test_its_squared_error_is_below_that_of_the_others_mean(chance, most):
    """Of 4 problems of 4 rollouts, and those of ten iterations; where no problem is in doubt there
    is little to gain."""
    stream, remembers = random.Random(0), shrunk(10)
    errors: dict[object, list[float]] = {remembers: [], GroupMean("mean", demo()): []}
    for iteration in range(1000):
        chances = [chance(stream) for _ in range(4)]
        rewards_PG = [[float(stream.random() < p) for _ in range(4)] for p in chances]
        for predictor, squares in errors.items():
            values = valued(rewards_PG, predictor)
            squares += [(v[0] - p) ** 2 for v, p in zip(values, chances, strict=True)]
        remembers.update(rollouts(rewards_PG), iteration)
    ours, theirs = map(fmean, errors.values())
    assert ours < most * theirs
