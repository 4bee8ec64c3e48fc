from dataclasses import replace

import pytest
from support.rollouts import LINES, rollout

from vineppo.credit import token_advantages
from vineppo.recipes.gae_bootstrapped import BootstrappedGae

CREDIT = BootstrappedGae("gae_bootstrapped", LINES, gamma=0.5, policy_lambda=0.5)


def test_a_truncated_response_by_hand():
    """With γ = 0.5 and V_T = 0.8: δ_1 = 0.4 − 0.25 = 0.15, δ_0 = 0.125 − 0.5 = −0.375.

    λ = 0.5: A_0 = −0.375 + 0.25 · 0.15 = −0.3375. λ = 1 for the critic: γ V_T = 0.4, γ² V_T = 0.2.
    """
    response = rollout([0.0, 0.0], [0.5, 0.25])
    response.values_after, response.finish_reason = {"fed": 0.8, "other": 9.0}, "length"
    by_steps = replace(CREDIT, level="step")
    assert token_advantages(CREDIT, [response])[0] == pytest.approx([-0.3375, 0.15])
    assert CREDIT.critic_targets(response, "fed") == pytest.approx([0.2, 0.4])
    # One step of two tokens: A = γ V_T − V_0.
    assert token_advantages(by_steps, [response])[0] == pytest.approx([-0.1, -0.1])
    response.finish_reason = "stop"
    assert token_advantages(CREDIT, [response])[0] == pytest.approx([-0.4375, -0.25])
