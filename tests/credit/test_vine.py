from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import rollout, terminal

from vineppo.credit import token_advantages
from vineppo.credit.vine import (
    VineCredit,
    broadcast,
    piece_advantages,
    step_means,
    step_sums,
    vine_advantages,
)
from vineppo.recipes.cuts import ExpectedCuts, even_cuts
from vineppo.segment import LinesSegmenter
from vineppo.types import StateValue, StepSpan

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)
CONFIG = VineCredit("vine", LinesSegmenter("lines"), 9, "share", None, False)


def test_docstring_example():
    # V(s_0) = 0.5, V(s_1) = 0.25, reward 1: 0.25 − 0.5 and 1 − 0.25.
    assert vine_advantages([0.5, 0.25], 1.0) == [-0.25, 0.75]


@given(VALUES, st.floats(0, 1))
def test_advantages_telescope(values_S, reward):
    advantages = vine_advantages(values_S, reward)
    assert len(advantages) == len(values_S)
    assert abs(sum(advantages) - (reward - values_S[0])) < 1e-9


def test_documented_steps():
    two_steps = [StepSpan(0, 2), StepSpan(2, 3)]
    assert broadcast([0.5, -1.0], two_steps) == [0.5, 0.5, -1.0]
    assert step_means([0.5, 0.0, -1.0], two_steps) == [0.25, -1.0]
    assert step_sums([0.5, 0.0, -1.0], two_steps) == [0.5, -1.0]


def test_every_token_has_the_advantage_of_its_step():
    right = rollout(terminal(1.0, 3), values_S=[0.5, 0.25], lengths_S=[2, 1])
    wrong = rollout(terminal(0.0, 4), values_S=[0.5], lengths_S=[4])
    assert token_advantages(CONFIG, [right, wrong]) == [[-0.25, -0.25, 0.75], [-0.5] * 4]


def test_the_reward_is_the_sum_over_tokens():
    # −0.1 + 0 + 0.6 = 0.5: 0.75 − 0.25, then 0.5 − 0.75.
    shaped = rollout([-0.1, 0.0, 0.6], values_S=[0.25, 0.75], lengths_S=[2, 1])
    assert token_advantages(CONFIG, [shaped])[0] == pytest.approx([0.5, 0.5, -0.25])


def states(*returns):
    return [StateValue(returns_K, 0) for returns_K in returns]


def test_the_documented_pieces():
    some = states((), (), (1.0, 0.0), ())
    assert piece_advantages(some, 1.0, 0.25, own_return=False) == [0.25, 0.25, 0.5, 0.5]
    joined = (2 * 0.5 + 1) / 3 - 0.25
    assert piece_advantages(some, 1.0, 0.25, own_return=True) == [joined, joined, 0.5, 0.5]


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1), st.floats(0, 1))
def test_with_all_states_pieces_are_steps(returns_SK, reward):
    all_states = states(*map(tuple, returns_SK))
    steps = vine_advantages([state.mean for state in all_states], reward)
    assert piece_advantages(all_states, reward, 0.7, own_return=False) == steps


def sampled(returns_S, reward):
    """Steps of one token, with the returns of their states."""
    found = rollout(terminal(reward, len(returns_S)), lengths_S=[1] * len(returns_S))
    found.returns_S["fed"], found.values_from = states(*returns_S), "fed"
    return found


def test_the_root_is_the_mean_reward_of_the_others():
    group = [sampled([(), (1.0,)], 0.0), sampled([()], 1.0), sampled([(0.25,)], 0.5)]
    # (1 + 0.5)/2 = 0.75 and (0 + 0.5)/2 = 0.25; the third has a root of its own.
    assert token_advantages(CONFIG, group) == [[0.25, -1.0], [0.75], [0.25]]


class Tree:
    """Binary choices of one token each, a reward of 0 or 1 for every leaf."""

    def __init__(self, seed, leaves):
        draw = np.random.default_rng(seed)
        self.leaves = leaves
        prefixes = sorted({leaf[:t] for leaf in leaves for t in range(len(leaf))})
        self.first = {prefix: draw.uniform(0.2, 0.8) for prefix in prefixes}
        self.reward = dict(zip(leaves, draw.permutation(len(leaves)) % 2, strict=True))

    @cache  # noqa: B019 (as long as a test)
    def value(self, prefix):
        if prefix in self.reward:
            return float(self.reward[prefix])
        first = self.first[prefix]
        return first * self.value((*prefix, 0)) + (1 - first) * self.value((*prefix, 1))

    def probability(self, leaf):
        return np.prod([abs(a - self.first[leaf[:t]]) for t, a in enumerate(leaf)])

    def gradient(self, advantages_of, cuts_of, draws_of):
        """E of Σ_t A_t ∂ log π(a_t)/∂ logit over rollouts, cuts and returns: a number a state.

        `cuts_of` a leaf gives [(probability, steps)], `draws_of` V [(probability,
        returns)].
        """
        expected = dict.fromkeys(self.first, 0.0)
        for leaf, reward in self.reward.items():
            for chance, cuts in cuts_of(leaf):
                draws_S = [
                    draws_of(self.value(leaf[:t])) if t in cuts else [(1.0, ())]
                    for t in range(len(leaf))
                ]
                for drawn_S in product(*draws_S):
                    weight = self.probability(leaf) * chance * np.prod([p for p, _ in drawn_S])
                    advantages = advantages_of([returns for _, returns in drawn_S], float(reward))
                    for t, (a, advantage) in enumerate(zip(leaf, advantages, strict=True)):
                        score = 1 - self.first[leaf[:t]] if a == 0 else -self.first[leaf[:t]]
                        expected[leaf[:t]] += weight * score * advantage
        return np.array([*expected.values()])

    def true_gradient(self):
        return self.gradient(lambda returns, reward: [reward] * len(returns), no_cut, one_draw)

    def vine_gradient(self, cuts_of, own_return=False, draws_of=None):
        """By the estimator, beside another rollout of every kind."""
        config = replace(CONFIG, own_return=own_return)
        mean = self.value(())

        def advantages(returns_S, reward):
            found = [
                token_advantages(config, [sampled(returns_S, reward), sampled([()], other)])[0]
                for other in (0.0, 1.0)
            ]
            return (1 - mean) * np.array(found[0]) + mean * np.array(found[1])

        return self.gradient(advantages, cuts_of, draws_of or one_draw)


EVEN = list(product((0, 1), repeat=3))
# A rollout ends with the first 1 after the first choice: of 2, 3 or 4 steps.
UNEVEN = [(0, 1), (1, 1), (0, 0, 1), (1, 0, 1), *((a, 0, 0, b) for a in (0, 1) for b in (0, 1))]


def one_draw(value):
    return [(value, (1.0,)), (1 - value, (0.0,))]


def no_cut(_):
    return [(1.0, ())]


def all_states(leaf):
    return [(1.0, range(len(leaf)))]


def random_cut(leaf):
    return [(1 / (len(leaf) - 1), (step,)) for step in range(1, len(leaf))]


def coins(leaf):
    return tossed([0.3] * (len(leaf) - 1))


def tossed(chances_S):
    """All cuts by coins that fall with these probabilities before steps 1, 2, …"""
    inner = range(1, len(chances_S) + 1)
    subsets = [cuts for n in range(len(inner) + 1) for cuts in combinations(inner, n)]
    return [
        (np.prod([c if j in cuts else 1 - c for j, c in zip(inner, chances_S, strict=True)]), cuts)
        for cuts in subsets
    ]


def even(chances_S):
    """All cuts that one phase gives these chances: it changes nothing between two of the edges."""
    edges = sorted({0.0, 1.0, *(-np.cumsum(chances_S) % 1)})
    return [(b - a, tuple(even_cuts(chances_S, (a + b) / 2))) for a, b in pairwise(edges)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("own_return", [False, True])
def test_pieces_are_unbiased(seed, own_return):
    """By enumeration, without a draw, to rounding; K = 1."""
    for leaves, all_cuts in ((EVEN, (random_cut, coins, all_states)), (UNEVEN, (coins,))):
        tree = Tree(seed, leaves)
        truth = tree.true_gradient()
        assert np.abs(truth).max() > 1e-2
        for cuts_of in all_cuts:
            found = tree.vine_gradient(cuts_of, own_return)
            assert found == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("by", ["probability", "entropy"])
@pytest.mark.parametrize("seed", range(3))
def test_coins_by_the_prefix_are_unbiased_and_by_the_outcome_are_not(seed, by):
    """Those of states "expected"; the same by the tokens after a boundary; by the reward."""
    tree = Tree(seed, UNEVEN)
    states = ExpectedCuts("expected", by, 0.3, 0.1)

    def expected(leaf):
        probs_T = [abs(a - tree.first[leaf[:t]]) for t, a in enumerate(leaf)]
        one = sampled([()] * len(leaf), 0.0)
        one.logprobs_T = tuple(np.log(probs_T))
        firsts = [tree.first[leaf[:t]] for t in range(len(leaf))]
        one.tokens_T["entropies"] = [-p * np.log(p) - (1 - p) * np.log(1 - p) for p in firsts]
        return states.chances(one, 0.7)

    def ahead(leaf):
        return [*expected(leaf)[1:], 0.1]

    def by_outcome(leaf):
        return [0.9 if tree.reward[leaf] else 0.1] * (len(leaf) - 1)

    truth = tree.true_gradient()
    for drawn in (tossed, even):
        found = tree.vine_gradient(lambda leaf: drawn(expected(leaf)))  # noqa: B023
        assert found == pytest.approx(truth, abs=1e-12)
        for chances in (ahead, by_outcome):
            bias = tree.vine_gradient(lambda leaf: drawn(chances(leaf))) - truth  # noqa: B023
            assert np.linalg.norm(bias) > 0.01 * np.linalg.norm(truth)
