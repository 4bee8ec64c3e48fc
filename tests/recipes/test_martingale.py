"""Credit by a martingale: exact expectations over all rollouts of a small tree."""

from itertools import product

import numpy as np
import pytest
import torch
from support.rollouts import LINES, changed, rollout, terminal
from support.walks import demo

from vineppo.config.checks import check_credit
from vineppo.config.schema import ValuesConfig
from vineppo.credit import token_advantages
from vineppo.errors import UserError
from vineppo.recipes.joined import JoinedCredit
from vineppo.recipes.martingale import MartingaleCredit
from vineppo.recipes.posterior import bounded_differences
from vineppo.types import MONTE_CARLO, StateValue, StepSpan
from vineppo.values.group_mean import GroupMean

CREDIT = MartingaleCredit("martingale", LINES)
BETWEEN = JoinedCredit("joined", LINES, 3, "share", None)
DEPTH = 3


def fed(reward, differences_T, root=0.0):
    found = rollout(terminal(reward, len(differences_T)))
    found.tokens_T["differences/fed"] = tuple(differences_T)
    found.tokens_T["values/fed"] = (root,) * len(differences_T)
    found.values_from = "fed"
    return found


def test_the_documented_example():
    found = token_advantages(CREDIT, [fed(1.0, [0.5, 0.0], 0.5), fed(0.0, [-0.25, 0.0], 0.5)])
    assert found == [pytest.approx([0.625, 0.125]), pytest.approx([-0.5, -0.25])]


def test_without_differences_the_root_counts_as_one_more_rollout():
    rollouts_G = [fed(reward, [0.0] * length, 0.4) for reward, length in ((1.0, 2), (0.0, 3))]
    found = [advantages_T[0] for advantages_T in token_advantages(CREDIT, rollouts_G)]
    assert found == pytest.approx([1 - (0.4 + 0.0) / 2, 0 - (0.4 + 1.0) / 2])
    assert token_advantages(CREDIT, rollouts_G[:1]) == [pytest.approx([0.6, 0.6])]


def between(found, states_S, lengths_S):
    starts = np.cumsum([0, *lengths_S])
    found.spans_S = tuple(map(StepSpan, starts.tolist(), starts[1:].tolist()))
    found.returns_S[MONTE_CARLO] = tuple(states_S)
    return found


def test_the_documented_example_between_sampled_states():
    own = fed(1.0, [0.25, 0.0, -0.25, 0.0], 0.5)
    between(own, [StateValue((), 0), StateValue((1.0,) * 3, 9)], [2, 2])
    other = between(fed(1.0, [0.0], 0.5), [StateValue((), 0)], [1])
    behind = 0.5 - (0.75 + 0.25) / 4
    first = (0.75 + 0.5) / 4 - 0.25
    assert token_advantages(BETWEEN, [own, other])[0] == pytest.approx(
        [0.25 + first, first, -0.25 + behind, behind]
    )


def test_without_a_martingale_the_outcomes_are_joined():
    """RLOO where nothing was sampled; V̂ = 1/4 of K = 4 between the two steps, others [1, 0]."""
    group = [
        between(fed(reward, [0.0, 0.0]), [StateValue((), 0)] * 2, [1, 1]) for reward in (1, 1, 0)
    ]
    for one in group:
        one.values_from = MONTE_CARLO
    assert token_advantages(BETWEEN, group) == [[0.5] * 2, [0.5] * 2, [-1] * 2]
    group[0].returns_S[MONTE_CARLO] = StateValue((), 0), StateValue((1.0, 0.0, 0.0, 0.0), 9)
    after, before = (4 * 0.25 + 1) / 5, (4 * 0.25 + 2 * 0.5) / 6
    assert token_advantages(BETWEEN, group)[0] == pytest.approx([after - 0.5, 1 - before])


def test_without_a_sampled_state_it_is_the_martingale():
    group = [fed(1.0, [0.5, 0.0], 0.5), fed(0.0, [-0.25, 0.0], 0.5)]
    cut = [between(one, [StateValue((), 0)] * 2, [1, 1]) for one in group]
    assert token_advantages(BETWEEN, cut) == token_advantages(CREDIT, group)


class Tree:
    """A policy of DEPTH binary choices, a reward of its leaves, and ratios that know nothing."""

    def __init__(self, seed):
        draw = np.random.default_rng(seed)
        self.first = {
            p: draw.uniform(0.1, 0.9) for n in range(DEPTH) for p in product((0, 1), repeat=n)
        }
        self.tilt = {p: draw.uniform(0.0, 1.0) for p in self.first}
        self.reward = {leaf: draw.uniform() for leaf in product((0, 1), repeat=DEPTH)}
        self.root = draw.uniform()

    def probs(self, prefix):
        return np.array([self.first[prefix], 1 - self.first[prefix]])

    def probability(self, leaf):
        return np.prod([self.probs(leaf[:t])[a] for t, a in enumerate(leaf)])

    def score(self, leaf, t):
        """∂ log π(a_t)/∂ logit of the first choice at its state."""
        return (1 - self.first[leaf[:t]]) if leaf[t] == 0 else -self.first[leaf[:t]]

    def rollout(self, leaf, drift=0.0):
        """Its differences by the tree's arbitrary ratios; a drift makes them no martingale."""
        probs = np.array([self.probs(leaf[:t]) for t in range(DEPTH)])
        tilted = np.array([[self.tilt[leaf[:t]], 1 - self.tilt[leaf[:t]]] for t in range(DEPTH)])
        ratios, probs = torch.tensor(tilted / probs)[None].log(), torch.tensor(probs)[None].log()
        root = torch.tensor([self.root], dtype=torch.float64)
        differences = bounded_differences(root, ratios, probs, torch.tensor([leaf]))[0].tolist()
        drifts = [drift * (choice == 0) for choice in leaf]
        moved = [sum(pair) for pair in zip(differences, drifts, strict=True)]
        return fed(self.reward[leaf], moved, self.root)

    def gradients(self, advantages_of, group_size):
        """E of Σ_t A_t ∂ log π(a_t) over all groups: a number a state."""
        expected = dict.fromkeys(self.first, 0.0)
        for leaves in product(self.reward, repeat=group_size):
            weight = np.prod([self.probability(leaf) for leaf in leaves]) / group_size
            for leaf, advantages_T in zip(leaves, advantages_of(leaves), strict=True):
                for t in range(DEPTH):
                    expected[leaf[:t]] += weight * advantages_T[t] * self.score(leaf, t)
        return np.array([*expected.values()])


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_unbiased_whatever_the_ratios_say(seed):
    """By enumeration, without a draw: the reward's own gradient to rounding. A drift is a bias."""
    tree = Tree(seed)
    truth = tree.gradients(lambda leaves: [[tree.reward[leaf]] * DEPTH for leaf in leaves], 1)
    by_drift = {
        drift: tree.gradients(
            lambda leaves, drift=drift: token_advantages(
                CREDIT, [tree.rollout(leaf, drift) for leaf in leaves]
            ),
            2,
        )
        for drift in (0.0, 0.2)
    }
    assert np.abs(by_drift[0.0] - truth).max() < 1e-12
    assert np.abs(by_drift[0.2] - truth).max() > 1e-3
    assert np.abs(truth).max() > 1e-2


@pytest.mark.parametrize("fed_by", ["fed", MONTE_CARLO])
@pytest.mark.parametrize("seed", range(3))
def test_states_that_the_prefix_chooses_leave_it_unbiased(seed, fed_by):
    """By enumeration; the advantage is linear in the returns, so that one is its mean. A state that
    the next choice has a say in is a bias."""
    tree = Tree(seed)
    truth = tree.gradients(lambda leaves: [[tree.reward[leaf]] * DEPTH for leaf in leaves], 1)

    def value(prefix):
        if len(prefix) == DEPTH:
            return tree.reward[prefix]
        return float(tree.probs(prefix) @ [value((*prefix, a)) for a in (0, 1)])

    def found(looks_ahead):
        def of(leaf):
            chosen = [t > 0 and sum(leaf[: t + looks_ahead]) % 2 == 0 for t in range(DEPTH)]
            states = [
                StateValue((value(leaf[:t]),) * is_chosen, 9) for t, is_chosen in enumerate(chosen)
            ]
            found = between(tree.rollout(leaf), states, [1] * DEPTH)
            found.values_from = fed_by  # without a martingale too
            return found

        return tree.gradients(
            lambda leaves: token_advantages(BETWEEN, [of(leaf) for leaf in leaves]), 2
        )

    assert np.abs(found(0) - truth).max() < 1e-12
    assert np.abs(found(1) - truth).max() > 1e-3


def test_joined_takes_a_martingale_or_none():
    config = changed(demo(), credit=BETWEEN, values=ValuesConfig(None, {}))
    check_credit(config)
    mean = ValuesConfig("mean", {"mean": GroupMean.Config("group_mean")})
    with pytest.raises(UserError, match=r"values\.credit must be a martingale.*'joined', got mean"):
        check_credit(changed(config, values=mean))
    with pytest.raises(UserError, match=r"rollouts\.num_samples"):
        check_credit(changed(config, rollouts={"num_samples": 1}))
