"""Trees of rollouts: by hand, and by enumerating every tree of a small policy."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from support.rollouts import LINES, rollout, terminal

from vineppo.credit import token_advantages
from vineppo.recipes.tree import (
    TreeCredit,
    segment_advantage,
)

TREE = TreeCredit("tree", LINES, (2, 2), 1, "mean", False, "once")
OTHERS = replace(TREE, baseline="others")


def leaf(index, reward, length):
    return replace(rollout(terminal(reward, length)), rollout_index=index)


def test_the_documented_example():
    rewards = [1.0, 0.0, 1.0, 1.0]
    assert [segment_advantage(TREE, rewards, 0, level) for level in (0, 1)] == [-0.25, 0.5]
    assert [segment_advantage(OTHERS, rewards, 0, level) for level in (0, 1)] == [-0.5, 1.0]
    # The children 0.5 and 1 of the root deviate by 0.25, those of the first node by 0.5.
    by_std = replace(TREE, normalize_std=True)
    found = [segment_advantage(by_std, rewards, 0, level) for level in (0, 1)]
    assert found == pytest.approx([-1.0, 1.0])


def test_every_segment_trains_once_and_those_of_no_advantage_never():
    """The second node's leaves are copies of a response that ended on the first level."""
    group = [leaf(0, 1.0, 4), leaf(1, 0.0, 3), leaf(2, 1.0, 1), leaf(3, 1.0, 1)]
    for one, advantages_T in zip(group, token_advantages(TREE, group), strict=True):
        one.tokens_T["advantages"] = advantages_T
    assert [one.tokens_T["advantages"] for one in group] == [
        [-0.25, 0.5, 0.5, 0.5], [-0.25, -0.5, -0.5], [0.25], [0.25],
    ]  # fmt: skip
    once = [[True] * 4, [False, True, True], [True], [False]]
    assert [TREE.sampled_tokens(one) for one in group] == once
    assert [TREE.trained_tokens(one) for one in group] == once
    by_leaves = replace(TREE, train_shared="by_leaves")
    assert all(all(by_leaves.trained_tokens(one)) for one in group)
    group[0].tokens_T["advantages"] = [0.0, 0.5, 0.5, 0.5]
    assert TREE.trained_tokens(group[0]) == [False, True, True, True]


class Policy:
    """Binary tokens. The first token 1 ends a response; after 0 come two more tokens."""

    def __init__(self, seed):
        draw = np.random.default_rng(seed)
        self.reward = {path: draw.uniform() for path in [(1,), *product((0,), (0, 1), (0, 1))]}
        states = [(), (0,), (0, 0), (0, 1)]
        self.first = {state: draw.uniform(0.2, 0.8) for state in states}

    def prob(self, path, start=0):
        """The probability of the tokens from `start` on."""
        steps = [abs(a - self.first[path[:t]]) for t, a in enumerate(path)]
        return np.prod(steps[start:])

    def score(self, path, t):
        """∂ log π(a_t)/∂ logit of token 0 at its state."""
        return 1 - self.first[path[:t]] if path[t] == 0 else -self.first[path[:t]]

    def truth(self):
        """∂ E[R]/∂ logit of every state."""
        found = dict.fromkeys(self.first, 0.0)
        for path, reward in self.reward.items():
            for t in range(len(path)):
                found[path[:t]] += self.prob(path) * reward * self.score(path, t)
        return np.array([*found.values()])

    def trees(self):
        """(probability, its four leaves) of every tree of two levels, of 1 and 2 tokens."""
        below = [path for path in self.reward if len(path) == 3]
        pairs = [
            (self.prob(one, 1) * self.prob(other, 1), (one, other))
            for one, other in product(below, repeat=2)
        ]
        nodes = [(self.prob((1,)), ((1,), (1,)))]
        nodes += [(self.first[()] * p, leaves) for p, leaves in pairs]
        for (p, left), (q, right) in product(nodes, repeat=2):
            yield p * q, (*left, *right)

    def gradient(self, tree):
        """E of Σ A ∂ log π over the tokens that train, a G-th of it."""
        found = dict.fromkeys(self.first, 0.0)
        for probability, paths in self.trees():
            group = [leaf(i, self.reward[path], len(path)) for i, path in enumerate(paths)]
            for path, one, advantages_T in zip(
                paths, group, token_advantages(tree, group), strict=True
            ):
                one.tokens_T["advantages"] = advantages_T
                for t, trains in enumerate(tree.trained_tokens(one)):
                    if trains:
                        weight = probability * advantages_T[t] / len(group)
                        found[path[:t]] += weight * self.score(path, t)
        return np.array([*found.values()])


LEVELS = np.array([0, 1, 1, 1])  # of the policy's states


@pytest.mark.parametrize("seed", range(3))
def test_leaving_the_own_child_out_is_unbiased_by_leaves(seed):
    """By enumeration, without a draw, to rounding."""
    policy = Policy(seed)
    assert sum(p for p, _ in policy.trees()) == pytest.approx(1.0)
    truth = policy.truth()
    assert np.abs(truth).max() > 1e-2
    by_leaves = replace(OTHERS, train_shared="by_leaves")
    assert policy.gradient(by_leaves) == pytest.approx(truth, abs=1e-12)
    # The own child in the mean of b = 2 takes 1/b of it away.
    with_own = replace(by_leaves, baseline="mean")
    assert policy.gradient(with_own) == pytest.approx(truth / 2, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_once_weighs_the_levels_by_their_segments(seed):
    """2 of 4 leaves have a first segment of their own: half the weight of the last level."""
    policy = Policy(seed)
    weights = np.where(LEVELS == 0, 0.5, 1.0)
    assert policy.gradient(OTHERS) == pytest.approx(weights * policy.truth(), abs=1e-12)
