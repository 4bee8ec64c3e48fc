"""Values corrected at random states: exact expectations over rollouts, coins and continuations."""

from itertools import product

import numpy as np
import pytest
from support.rollouts import LINES, changed, rollout, terminal
from support.walks import demo

from vineppo.config.checks import check_credit
from vineppo.config.schema import MonteCarloValues, ValuesConfig
from vineppo.credit import token_advantages
from vineppo.credit.gae import GaeCredit
from vineppo.errors import UserError
from vineppo.recipes.cuts import CoinCuts
from vineppo.recipes.doubly_robust import DoublyRobustCredit, doubly_robust_advantages
from vineppo.types import MONTE_CARLO, StateValue
from vineppo.values.group_mean import GroupMean

DEPTH = 3
CREDIT = DoublyRobustCredit("doubly_robust", LINES, 1, 0.3)
LEAVES = tuple(product((0, 1), repeat=DEPTH))
NONE = StateValue((), 0)


def fed(reward, values_S, states_S, lengths_S=None):
    lengths_S = lengths_S or [1] * len(values_S)
    found = rollout(terminal(reward, sum(lengths_S)), values_S=values_S, lengths_S=lengths_S)
    found.returns_S[MONTE_CARLO] = states_S
    return found


def test_the_documented_example():
    states_S = [NONE, NONE, StateValue((1.0, 1.0, 1.0, 0.0), 9)]
    found = doubly_robust_advantages([0, 0, 1], [0.5, 0.5, 0.25], states_S, 0.5)
    assert found == [0.5625, 0.625, 0.75]


def test_without_a_sampled_state_it_is_gae():
    one = fed(1.0, [0.5, 0.25, 0.75], [NONE] * 3, [2, 1, 1])
    gae = GaeCredit("gae", LINES, 1.0, 0.7, None, 1.0, "step")
    assert token_advantages(CREDIT, [one]) == token_advantages(gae, [one])


def drawn(seed):
    """A policy of binary choices, rewards of its leaves, and values that know nothing."""
    draw = np.random.default_rng(seed)
    prefixes = [p for n in range(DEPTH) for p in product((0, 1), repeat=n)]
    probs = {p: draw.uniform(0.1, 0.9) for p in prefixes}
    values = {p: draw.uniform(-1, 2) for p in prefixes}
    return probs, dict(zip(LEAVES, draw.uniform(size=8), strict=True)), values


def probability(probs, leaf, first=0):
    """The probability of a leaf from its prefix of `first` choices on."""
    taken = [probs[leaf[:t]] if leaf[t] else 1 - probs[leaf[:t]] for t in range(first, DEPTH)]
    return float(np.prod(taken))


def gradient(probs, expected_S):
    """E Σ_t A_t ∂ log π(a_t)/∂ logit, a number a state, from E[A_t | rollout]."""
    found = dict.fromkeys(probs, 0.0)
    for leaf in LEAVES:
        for t, advantage in enumerate(expected_S(leaf)):
            score = leaf[t] - probs[leaf[:t]]
            found[leaf[:t]] += probability(probs, leaf) * score * advantage
    return np.array([*found.values()])


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_unbiased_whatever_the_values_say(seed):
    """To rounding. Another probability of the coin than the config's is a bias."""
    probs, rewards, values = drawn(seed)

    def expected(coin):
        def of_rollout(leaf):
            total_S = np.zeros(DEPTH)
            # What the coins fall on before s_1 and s_2, and how their continuations end.
            ends = [
                [(leaf[:t] + rest) for rest in product((0, 1), repeat=DEPTH - t)] for t in (1, 2)
            ]
            for tosses in product((0, 1), repeat=2):
                for at_ends in product(*ends):
                    weight = np.prod([coin if toss else 1 - coin for toss in tosses])
                    states_S = [NONE]
                    for t, toss, end in zip((1, 2), tosses, at_ends, strict=True):
                        weight *= probability(probs, end, t)
                        states_S.append(StateValue((rewards[end],), 1) if toss else NONE)
                    one = fed(rewards[leaf], [values[leaf[:t]] for t in range(DEPTH)], states_S)
                    total_S += weight * np.array(token_advantages(CREDIT, [one])[0])
            return total_S

        return gradient(probs, of_rollout)

    truth = gradient(probs, lambda leaf: [rewards[leaf]] * DEPTH)
    assert np.abs(truth).max() > 1e-2
    assert np.abs(expected(0.3) - truth).max() < 1e-12
    assert np.abs(expected(0.5) - truth).max() > 1e-3


def test_its_continuations_are_tossed_for_and_kept_apart():
    assert CREDIT.monte_carlo == MonteCarloValues(
        "monte_carlo", 1, "separate", CoinCuts("coin", 0.3)
    )


def test_values_of_all_states_are_required():
    credit = DoublyRobustCredit("doubly_robust", LINES, 1, 0.3)
    some = MonteCarloValues("monte_carlo", 2, "share", CoinCuts("coin", 0.5))
    known = {"mean": GroupMean.Config("group_mean"), "some": some}
    config = changed(demo(), credit=credit, values=ValuesConfig("mean", known))
    credit.check("credit", config)
    for feeding in ("some", MONTE_CARLO):
        with pytest.raises(UserError, match=r"values\.credit must be a predictor of all states'"):
            credit.check("credit", changed(config, values=ValuesConfig(feeding, known)))
    with pytest.raises(UserError, match="critic must be a value model"):
        check_credit(changed(config, values=ValuesConfig(None, known)))
