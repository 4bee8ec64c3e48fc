"""Generalised advantage estimation over a critic's values (Schulman et al. 2016, arXiv:1506.02438).

Everything here is plain lists over the tokens, or steps, of one response: padding cannot enter.
`values_T[t]` is the value of the state before token t; after the last token it is 0, or with
`bootstrap_truncated` that of the state in which the budget ended. Tokens of an
environment have γ = λ = 1 and the value after them, so that credit passes them by as if they were
not there.
"""

import math
from collections.abc import Sequence

from vineppo.config.schema import CreditConfig, GaeCredit
from vineppo.credit.vine import broadcast, step_sums
from vineppo.types import Rollout


def gae(
    rewards_T: Sequence[float],
    values_T: Sequence[float],
    gammas_T: Sequence[float],
    lambdas_T: Sequence[float],
    value_after: float = 0.0,
) -> list[float]:
    """A_t = δ_t + γ_t λ_t A_{t+1},  δ_t = r_t + γ_t V_{t+1} − V_t  (arXiv:1506.02438, eq. 16).

    One γ and one λ a token: they carry V_{t+1} and A_{t+1} back to t, so the last λ is without
    effect, and so is the last γ where `value_after`, V_T, is 0. Rewards [0, 1], values [0.5, 0.25],
    γ = 1, λ = 0.5: A_1 = 0.75, A_0 = −0.25 + 0.5·0.75 = 0.125.
    """
    advantages_T: list[float] = []
    next_value, next_advantage = value_after, 0.0
    terms = zip(rewards_T, values_T, gammas_T, lambdas_T, strict=True)
    for reward, value, gamma, lambda_ in reversed(list(terms)):
        delta = reward + gamma * next_value - value
        next_advantage = delta + gamma * lambda_ * next_advantage
        next_value = value
        advantages_T.append(next_advantage)
    return advantages_T[::-1]


def reward_to_go(rewards_T: Sequence[float], gammas_T: Sequence[float]) -> list[float]:
    """G_t = r_t + γ_t G_{t+1}. Rewards [−0.1, 0, 1], γ = 0.5 → [0.15, 0.5, 1]."""
    returns_T: list[float] = []
    following = 0.0
    for reward, gamma in reversed(list(zip(rewards_T, gammas_T, strict=True))):
        following = reward + gamma * following
        returns_T.append(following)
    return returns_T[::-1]


def length_adaptive_lambda(alpha: float, length: int) -> float:
    """λ = 1 − 1/(alpha · length), clamped into [0, 1) (VAPO, arXiv:2504.05118, section 4.2).

    The weights of the δ that enter an advantage then sum to about 1/(1 − λ) = alpha · length: a
    fixed part of the response. `length_adaptive_lambda(0.05, 100) = 0.8`.
    """
    below_one = math.nextafter(1.0, 0.0)
    return min(max(1.0 - 1.0 / (alpha * length), 0.0), below_one)


def segmental_lambdas(
    logprobs_T: Sequence[float], lambda_: float, segment_max_prob: float
) -> list[float]:
    """λ_t = λ where token t + 1 starts a segment, 1 elsewhere (SAE, arXiv:2601.07320).

    A segment starts with a token that was sampled with probability < `segment_max_prob`. With
    probabilities [0.9, 0.1, 0.8], λ = 0.5, threshold 0.2 → [0.5, 1, 1].
    """
    lambdas_T = [
        lambda_ if math.exp(logprob) < segment_max_prob else 1.0 for logprob in logprobs_T[1:]
    ]
    return [*lambdas_T, 1.0]


def gae_credit(config: GaeCredit, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """The policy's advantages of every rollout, by tokens or by steps.

    Level "step": rewards are summed within steps, only the values at step starts are used, γ and λ
    apply once a step, and every token has its step's advantage; the length of a length-adaptive λ
    is then counted in steps as well, because it is steps that λ runs over.
    """
    return [_policy_advantages(config, rollout) for rollout in rollouts_G]


def _policy_advantages(config: GaeCredit, rollout: Rollout) -> list[float]:
    is_token = config.level == "token"
    rewards = rollout.rewards_T if is_token else step_sums(rollout.rewards_T, rollout.spans_S)
    values = rollout.state_values_T if is_token else rollout.state_values_S
    lambda_ = config.policy_lambda
    if lambda_ is None:
        assert config.length_adaptive_alpha is not None, "one λ: fixed or length-adaptive"
        length = rollout.num_actions if is_token else len(values)
        lambda_ = length_adaptive_lambda(config.length_adaptive_alpha, length)
    lambdas = each_action(lambda_, rollout) if is_token else [lambda_] * len(values)
    if config.segment_max_prob is not None:
        lambdas = segmental_lambdas(rollout.logprobs_T, lambda_, config.segment_max_prob)
    gammas = each_action(config.gamma, rollout) if is_token else [config.gamma] * len(values)
    advantages = gae(
        rewards, values, gammas, lambdas, value_after(config, rollout, rollout.values_from)
    )
    return advantages if is_token else broadcast(advantages, rollout.spans_S)


def outcome_returns(config: CreditConfig, rollout: Rollout) -> list[float]:
    """The actual reward to go of every token, discounted as `config` says; no value enters."""
    return reward_to_go(rollout.rewards_T, _gammas(config, rollout))


def value_after(config: GaeCredit, rollout: Rollout, predictor: str | None) -> float:
    """V of the state after the last token: 0 where the response has ended.

    With `bootstrap_truncated` a response that the budget cut off counts as one that goes on
    (partial-episode bootstrapping, Pardo et al. 2018, arXiv:1712.00378): its last δ is
    γ V(s_T) − V(s_{T−1}).
    """
    if not config.bootstrap_truncated or rollout.finish_reason != "length":
        return 0.0
    assert predictor is not None, "a predictor feeds it"
    return rollout.values_after[predictor]


def critic_returns(config: CreditConfig, rollout: Rollout, predictor: str) -> list[float]:
    """A critic's targets, one a token: A^GAE(critic_lambda) + V before any whitening.

    Of the critic's own values. A λ of its own is VC-PPO's decoupled GAE (arXiv:2503.01491);
    critic_lambda = 1 gives the reward to go, and of a response that is bootstrapped γ's discount of
    V_T besides. Always over tokens; where γ is per step it discounts
    between steps, so that the values at step starts are those that step-level advantages take. A
    critic beside another estimator is only measured, and learns the undiscounted reward to go.
    Rewards [0, 1], values [0.5, 0.25], γ = 1, λ = 0.5: advantages [0.125, 0.75], targets
    [0.625, 1].
    """
    if not isinstance(config, GaeCredit):
        return outcome_returns(config, rollout)
    lambdas_T = each_action(config.critic_lambda, rollout)
    values_T, after = rollout.values_T(predictor), value_after(config, rollout, predictor)
    advantages_T = gae(rollout.rewards_T, values_T, _gammas(config, rollout), lambdas_T, after)
    return [advantage + value for advantage, value in zip(advantages_T, values_T, strict=True)]


def _gammas(config: CreditConfig, rollout: Rollout) -> list[float]:
    """What discounts the reward after each token: γ, where that is per step only between steps."""
    length = len(rollout.rewards_T)
    if not isinstance(config, GaeCredit):
        return [1.0] * length
    if config.level == "token":
        return each_action(config.gamma, rollout)
    ends = {span.end for span in rollout.action_spans_S}
    return [config.gamma if t + 1 in ends else 1.0 for t in range(length)]


def each_action(factor: float, rollout: Rollout) -> list[float]:
    """γ or λ after each token of the policy, 1 after an environment's."""
    return [factor if is_action else 1.0 for is_action in rollout.is_action_T]
