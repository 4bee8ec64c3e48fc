"""Continuations joined with outcomes along a martingale: exact expectations over a small tree."""

from dataclasses import replace

import numpy as np
import pytest
from support.martingales import DEPTH, Tree, fed
from support.rollouts import LINES, changed
from support.walks import demo

from vineppo.config.checks import check_credit
from vineppo.config.schema import ValuesConfig
from vineppo.credit import token_advantages
from vineppo.errors import UserError
from vineppo.recipes.joined import JoinedCredit
from vineppo.recipes.martingale import MartingaleCredit
from vineppo.types import MONTE_CARLO, StateValue, StepSpan
from vineppo.values.group_mean import GroupMean

BETWEEN = JoinedCredit("joined", LINES, 3, "share", None)
ROOTED = replace(BETWEEN, root="mean")


def between(found, states_S, lengths_S):
    starts = np.cumsum([0, *lengths_S])
    found.spans_S = tuple(map(StepSpan, starts.tolist(), starts[1:].tolist()))
    found.returns_S[MONTE_CARLO] = tuple(states_S)
    return found


def test_the_documented_example():
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
    for one in group:
        one.steps_S["values/mean"] = [0.4, 0.9]
    before = (4 * 0.25 + 2 * 0.4) / 6
    assert token_advantages(ROOTED, group)[0] == pytest.approx([after - 0.4, 1 - before])


def test_without_a_sampled_state_it_is_the_martingale():
    group = [fed(1.0, [0.5, 0.0], 0.5), fed(0.0, [-0.25, 0.0], 0.5)]
    cut = [between(one, [StateValue((), 0)] * 2, [1, 1]) for one in group]
    assert token_advantages(BETWEEN, cut) == token_advantages(
        MartingaleCredit("martingale", LINES), group
    )


@pytest.mark.parametrize("fed_by", ["fed", MONTE_CARLO])
@pytest.mark.parametrize("seed", range(3))
def test_states_that_the_prefix_chooses_leave_it_unbiased(seed, fed_by):
    """By enumeration; the advantage is linear in the returns, so that one is its mean. A state that
    the next choice has a say in is a bias, and so is a root that holds the own return."""
    tree = Tree(seed)
    truth = tree.gradients(lambda leaves: [[tree.reward[leaf]] * DEPTH for leaf in leaves], 1)

    def value(prefix):
        if len(prefix) == DEPTH:
            return tree.reward[prefix]
        return float(tree.probs(prefix) @ [value((*prefix, a)) for a in (0, 1)])

    def found(looks_ahead, root_of=None):
        def of(leaf):
            chosen = [t > 0 and sum(leaf[: t + looks_ahead]) % 2 == 0 for t in range(DEPTH)]
            states = [
                StateValue((value(leaf[:t]),) * is_chosen, 9) for t, is_chosen in enumerate(chosen)
            ]
            found = between(tree.rollout(leaf), states, [1] * DEPTH)
            found.values_from = fed_by  # without a martingale too
            return found

        def advantages(leaves):
            group = [*map(of, leaves)]
            if root_of is None:
                return token_advantages(BETWEEN, group)
            for one, other in zip(group, group[::-1], strict=True):
                one.steps_S["values/mean"] = [root_of(one.reward, other.reward)] * DEPTH
            return token_advantages(ROOTED, group)

        return tree.gradients(advantages, 2)

    def drawn_to_others(own, other):  # noqa: ARG001
        return 0.6 * other + 0.4 * 0.3

    assert np.abs(found(0) - truth).max() < 1e-12
    assert np.abs(found(1) - truth).max() > 1e-3
    assert np.abs(found(0, drawn_to_others) - truth).max() < 1e-12
    assert np.abs(found(0, max) - truth).max() > 1e-3


def test_it_takes_a_martingale_or_none():
    config = changed(demo(), credit=BETWEEN, values=ValuesConfig(None, {}))
    check_credit(config)
    mean = ValuesConfig("mean", {"mean": GroupMean.Config("group_mean")})
    with pytest.raises(UserError, match=r"values\.credit must be a martingale.*'joined', got mean"):
        check_credit(changed(config, values=mean))
    with pytest.raises(UserError, match=r"rollouts\.num_samples"):
        check_credit(changed(config, rollouts={"num_samples": 1}))
    with pytest.raises(UserError, match=r"credit\.root must be .*predictors \(none\), got mean"):
        ROOTED.check("credit", config)
    ROOTED.check("credit", changed(config, values=mean))
