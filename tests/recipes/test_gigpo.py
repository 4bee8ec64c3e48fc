"""Credit by equal states, and why none is normalised by the turn's number."""

from dataclasses import replace
from itertools import product

import pytest
from support.rollouts import rollout as plain_rollout

from vineppo.credit import token_advantages
from vineppo.credit.gae import GaeCredit
from vineppo.credit.groups import RlooCredit
from vineppo.credit.vine import VineCredit
from vineppo.recipes.gigpo import GigpoCredit, turn_returns
from vineppo.segment import TurnsSegmenter
from vineppo.types import MONTE_CARLO, StateValue, StepSpan, Turn

TURNS = TurnsSegmenter("turns")
GIGPO = GigpoCredit(
    "gigpo", TURNS, gamma=1.0, step_weight=1.0, baseline="mean", normalize_std=False
)
OTHERS = replace(GIGPO, baseline="others")


def played(states, rewards, values_S=None):
    """Turns of a token each, with a token of the environment between."""
    pairs = zip(states, rewards, strict=True)
    turns = tuple(Turn(2 * i, 2 * i + 1, *pair) for i, pair in enumerate(pairs))
    length = 2 * len(turns) - 1
    one = plain_rollout([0.0] * (length - 1) + [sum(rewards)], values_S=values_S)
    one.turns = turns
    one.spans_S = tuple(StepSpan(t.start, min(t.start + 2, length)) for t in turns)
    return one


def test_hand_computed():
    """Three rollouts of returns 1, 0, 0.5; a and b are in two rollouts, b twice in the second.

    A_E is 0.5, −0.5, 0. To go, a: 1 and 0 (mean 0.5), b: 1 and 0, 0 (mean 1/3), c: 0.5 alone.
    """
    rollouts_G = [
        played("ab", (0.0, 1.0)),
        played("abb", (0.0, 0.0, 0.0)),
        played("c", (0.5,)),
    ]
    found = token_advantages(GIGPO, rollouts_G)
    assert found[0] == pytest.approx([0.5 + 0.5, 0, 0.5 + 2 / 3])
    assert found[1] == pytest.approx([-0.5 - 0.5, 0, -0.5 - 1 / 3, 0, -0.5 - 1 / 3])
    assert found[2] == pytest.approx([0])
    # By the others' alone: A_E 0.75, −0.75, 0; of a ±1, of b 1 − 0 and 0 − 1 for both visits.
    found = token_advantages(OTHERS, rollouts_G)
    assert found[0] == pytest.approx([1.75, 0, 1.75])
    assert found[1] == pytest.approx([-1.75, 0, -1.75, 0, -1.75])
    # The deviations: 0.5 of returns, 1/√2 of a; half of the turns' part.
    halved = replace(GIGPO, normalize_std=True, step_weight=0.5)
    assert token_advantages(halved, rollouts_G)[0][0] == pytest.approx(1 + 0.5 * 0.5**0.5, abs=1e-5)


def test_a_turns_return_is_discounted_by_turns():
    assert turn_returns(played("ab", (0.0, 1.0)), 0.5) == [0.5, 1.0]


GO_ON = 0.3  # the probability p of going on, of which θ is the logit
SCORE = {True: 1 - GO_ON, False: -GO_ON}  # ∂ log π/∂θ


def stopping(goes_on):
    """To stop earns nothing, and to go on 1 in the next turn: V is p and then 1."""
    if goes_on:
        return played("ab", (0.0, 1.0), values_S=(GO_ON, 1.0))
    return played("a", (0.0,), values_S=(GO_ON,))


def expected_gradient(advantages_of):
    """E[1/G Σ_i A_i ∂ log π(a_i)/∂θ] of the decision, over all outcomes of three rollouts."""
    total = 0.0
    for outcome in product((True, False), repeat=3):
        rollouts_G = list(map(stopping, outcome))
        probability = 1.0
        for goes_on in outcome:
            probability *= GO_ON if goes_on else 1 - GO_ON
        found = advantages_of(rollouts_G)
        pairs = zip(found, outcome, strict=True)
        total += probability * sum(a_T[0] * SCORE[goes_on] for a_T, goes_on in pairs) / 3
    return total


VINE = VineCredit("vine", TURNS, 1, "share", None, False)
GAE = GaeCredit("gae", TURNS, 1.0, 0.5, None, 1.0, "step")


@pytest.mark.parametrize(
    ("credit", "times"),
    # Every other rollout passes the first state, so that the turns' part is the whole again.
    [(RlooCredit("rloo", TURNS), 1), (VINE, 1), (GAE, 1), (OTHERS, 2),
     (replace(OTHERS, gamma=0.95), 1.95), (replace(OTHERS, step_weight=0.0), 1)],
)  # fmt: skip
def test_where_the_policy_decides_when_to_stop_the_gradient_is_exact(credit, times):
    """dJ/dθ = p (1 − p) (1 − 0), in closed form."""

    def advantages_of(rollouts_G):
        for one in rollouts_G:
            if credit is VINE:
                one.values_from = MONTE_CARLO
                one.steps_S["values/monte_carlo"] = one.steps_S["values/fed"]
                one.returns_S[MONTE_CARLO] = [
                    StateValue((v,), 0) for v in one.steps_S["values/fed"]
                ]
        return token_advantages(credit, rollouts_G)

    assert expected_gradient(advantages_of) == pytest.approx(times * GO_ON * (1 - GO_ON))
