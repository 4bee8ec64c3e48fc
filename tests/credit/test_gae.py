from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import rollout, terminal

from vineppo.credit import token_advantages
from vineppo.credit.gae import (
    GaeCredit,
    gae,
    length_adaptive_lambda,
    reward_to_go,
)
from vineppo.credit.vine import step_means
from vineppo.segment import LinesSegmenter
from vineppo.types import Turn
from vineppo.values import carried_back

SEGMENTER = LinesSegmenter("lines")
PLAIN = GaeCredit(
    kind="gae",
    segmenter=SEGMENTER,
    gamma=1.0,
    policy_lambda=1.0,
    length_adaptive_alpha=None,
    critic_lambda=1.0,
    level="token",
)
FRACTION = st.floats(0, 1)


@st.composite
def responses(draw):
    """A response in steps, rewards on any token, a value before each, probabilities below 1."""
    lengths_S = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    size = sum(lengths_S)
    numbers = st.lists(st.floats(-2, 2), min_size=size, max_size=size)
    logprobs = st.lists(st.floats(-5, -0.001), min_size=size, max_size=size)
    return rollout(draw(numbers), draw(numbers), lengths_S=lengths_S, logprobs_T=draw(logprobs))


def advantages(config, response):
    return token_advantages(config, [response])[0]


def targets(config, response):
    """Those of a critic whose values feed the estimator."""
    return config.critic_targets(response, "fed")


def test_by_hand():
    """δ_2 = 1 − 0.8 = 0.2; δ_1 = 0.5·0.8 − 0.6 = −0.2; δ_0 = −0.1 + 0.5·0.6 − 0.4 = −0.2.

    With γ = 0.5 and λ = 0.5 (γλ = 0.25): A_2 = 0.2, A_1 = −0.2 + 0.25·0.2 = −0.15,
    A_0 = −0.2 − 0.25·0.15 = −0.2375.
    """
    response = rollout([-0.1, 0.0, 1.0], [0.4, 0.6, 0.8])
    config = replace(PLAIN, gamma=0.5, policy_lambda=0.5, critic_lambda=0.0)
    assert advantages(config, response) == pytest.approx([-0.2375, -0.15, 0.2])
    # λ = 0 for the critic: r_t + γ V_{t+1}.
    assert targets(config, response) == pytest.approx([-0.1 + 0.3, 0.4, 1.0])


def test_docstring_examples():
    response = rollout([0.0, 1.0], [0.5, 0.25])
    assert gae([0.0, 1.0], [0.5, 0.25], [1.0, 1.0], [0.5, 0.5]) == [0.125, 0.75]
    assert targets(replace(PLAIN, critic_lambda=0.5), response) == [0.625, 1.0]
    assert reward_to_go([-0.1, 0.0, 1.0], [0.5] * 3) == pytest.approx([0.15, 0.5, 1.0])
    assert length_adaptive_lambda(0.05, 100) == pytest.approx(0.8)


@given(responses(), FRACTION)
def test_lambda_one_is_the_return_less_the_value(response, gamma):
    found = advantages(replace(PLAIN, gamma=gamma), response)
    returns_T = reward_to_go(response.rewards_T, [gamma] * len(response.rewards_T))
    assert found == pytest.approx(
        [r - v for r, v in zip(returns_T, response.state_values_T, strict=True)], abs=1e-9
    )


@given(responses(), FRACTION, FRACTION)
def test_gae_is_the_discounted_sum_of_errors(response, gamma, lambda_):
    size = len(response.rewards_T)
    errors = gae(response.rewards_T, response.state_values_T, [gamma] * size, [0.0] * size)
    sums = [
        sum((gamma * lambda_) ** (u - t) * errors[u] for u in range(t, size)) for t in range(size)
    ]
    found = advantages(replace(PLAIN, gamma=gamma, policy_lambda=lambda_), response)
    assert found == pytest.approx(sums, abs=1e-9)


@given(responses(), FRACTION, FRACTION)
def test_targets_are_advantages_plus_values_at_the_critics_lambda(response, gamma, lambda_):
    same = replace(PLAIN, gamma=gamma, policy_lambda=lambda_, critic_lambda=lambda_)
    decoupled = replace(same, policy_lambda=0.3)
    expected = [
        a + v for a, v in zip(advantages(same, response), response.state_values_T, strict=True)
    ]
    assert targets(same, response) == pytest.approx(expected)
    assert targets(decoupled, response) == targets(same, response)


@given(responses(), FRACTION)
def test_steps_of_one_token_are_tokens(response, lambda_):
    size = len(response.rewards_T)
    response = rollout(response.rewards_T, response.state_values_T, lengths_S=[1] * size)
    token = replace(PLAIN, gamma=0.9, policy_lambda=lambda_, critic_lambda=lambda_)
    step = replace(token, level="step")
    assert advantages(step, response) == pytest.approx(advantages(token, response), abs=1e-9)
    expected = targets(token, response)
    assert targets(step, response) == pytest.approx(expected, abs=1e-9)


def test_step_level_discounts_between_steps_only():
    """Steps of 2 and 1 tokens, rewards 0.2, 0.1 | 1, values 0.4 and 0.8 at their starts, γ = 0.5.

    A_1 = 1 − 0.8 = 0.2; A_0 = 0.3 + 0.5·0.8 − 0.4 + 0.5·0.5·0.2 = 0.35 (λ = 0.5). The critic's
    targets at λ = 1: 1, then 0.1 + 0.5·1 = 0.6 and 0.2 + 0.6 = 0.8, undiscounted within the step.
    """
    response = rollout([0.2, 0.1, 1.0], [0.4, 99.0, 0.8], lengths_S=[2, 1])
    config = replace(PLAIN, gamma=0.5, policy_lambda=0.5, level="step")
    assert advantages(config, response) == pytest.approx([0.35, 0.35, 0.2])
    assert targets(config, response) == pytest.approx([0.8, 0.6, 1.0])


def test_length_adaptive_lambda_at_its_corners():
    assert length_adaptive_lambda(0.05, 20) == 0.0  # alpha · length = 1
    assert length_adaptive_lambda(0.05, 3) == 0.0
    assert length_adaptive_lambda(1e300, 10**6) < 1.0


def test_length_adaptive_lambda_is_used_per_response():
    """α = 0.5: λ = 0 for 2 tokens, 1 − 1/2 = 0.5 for 4. Level "step": 4 steps of the latter."""
    config = replace(PLAIN, policy_lambda=None, length_adaptive_alpha=0.5)
    short, long = rollout(terminal(1.0, 2), [0.0] * 2), rollout(terminal(1.0, 4), [0.0] * 4)
    assert token_advantages(config, [short, long]) == [[0.0, 1.0], [0.125, 0.25, 0.5, 1.0]]
    in_steps = rollout(terminal(1.0, 8), [0.0] * 8, lengths_S=[2] * 4)
    found = advantages(replace(config, level="step"), in_steps)
    assert step_means(found, in_steps.spans_S) == [0.125, 0.25, 0.5, 1.0]


@given(responses(), st.sampled_from(["token", "step"]), FRACTION)
def test_credit_passes_an_environments_tokens_by(response, level, lambda_):
    """Two tokens of it behind every turn but the last change neither advantages nor targets."""
    config = replace(PLAIN, gamma=0.9, policy_lambda=lambda_, critic_lambda=lambda_, level=level)
    rewards_T, values_T, turns, lengths = [], [], [], []
    for span in response.spans_S:
        start = len(rewards_T)
        rewards_T += [*response.rewards_T[span.start : span.end], 0.0, 0.0]
        values_T += [*response.state_values_T[span.start : span.end], 99.0, 99.0]
        turns.append(Turn(start, len(rewards_T) - 2, "", 0.0))
        lengths.append(len(rewards_T) - start)
    dialogue = rollout(rewards_T[:-2], None, lengths_S=[*lengths[:-1], lengths[-1] - 2])
    dialogue.turns, dialogue.values_from = tuple(turns), "fed"
    dialogue.tokens_T["values/fed"] = carried_back(values_T[:-2], turns)
    found = dialogue.of_actions(advantages(config, dialogue))
    assert found == pytest.approx(advantages(config, response), abs=1e-9)
    found = dialogue.of_actions(targets(config, dialogue))
    assert found == pytest.approx(targets(config, response), abs=1e-9)
