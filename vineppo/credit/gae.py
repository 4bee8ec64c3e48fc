"""Generalised advantage estimation over a critic's values (Schulman et al. 2016, arXiv:1506.02438).

All lists are over the tokens, or steps, of one response: padding cannot enter.
`values_T[t]` is the value of the state before token t; after the last token it is 0, or with
`bootstrap_truncated` that of the state in which the budget ended. Tokens of an
environment have γ = λ = 1 and the value after them, so that credit passes them by as if they were
not there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vineppo.config.require import require, require_one_null
from vineppo.config.schema.scalars import Fraction, Positive
from vineppo.credit import Credit, reward_to_go
from vineppo.credit.vine import broadcast, step_sums
from vineppo.types import CRITIC, Rollout


@dataclass(frozen=True)
class GaeCredit(Credit):
    """PPO: generalised advantage estimation over the values of tokens or steps.

    Level "step" sums rewards within steps and uses the values at step starts alone. γ and λ apply
    once a step, a length-adaptive λ counts steps, and every token has its step's advantage.
    """

    fed_by = CRITIC

    gamma: Fraction = 1.0  # per token, or per step for level "step"
    # λ of the policy's advantages: a number, or null with `length_adaptive_alpha` in its place.
    policy_lambda: Fraction | None = 1.0
    length_adaptive_alpha: Positive | None = None  # λ = 1 − 1/(alpha · response length), in [0, 1)
    critic_lambda: Fraction = 1.0  # λ of the critic's targets, always over tokens
    # "step": one advantage a step, values at step boundaries only.
    level: Literal["token", "step"] = "token"
    # The value of its last state replaces the reward of a truncated response.
    bootstrap_truncated: bool = False

    @property
    def reads(self) -> Literal["steps", "tokens"]:
        return "tokens" if self.level == "token" else "steps"

    @property
    def bootstraps(self) -> bool:
        return self.bootstrap_truncated

    def check(self, key: str, config: Any) -> None:
        feeding = config.values.credit
        taken = config.values.predictors.get(feeding or "")
        gives_tokens = feeding in (None, CRITIC) or (taken and taken.predictor.gives == "tokens")
        require(
            gives_tokens or self.level == "step",
            f"{key}.level must be 'step' with values.credit {feeding} (it values steps), got "
            "'token'",
        )
        sampled = config.continuations.get(feeding)
        states = sampled and sampled.states
        require(
            states is None,
            f"values.predictors.{feeding}.states must be null for {key}.kind 'gae' (it takes the "
            f"values of all states), got {states and states.kind!r}",
        )
        require_one_null(config, f"{key}.policy_lambda", f"{key}.length_adaptive_alpha")
        if self.bootstrap_truncated:
            require(
                gives_tokens,
                "values.credit must be a predictor of tokens' values, such as a critic, with "
                f"{key}.bootstrap_truncated (it values the end of a response), got {feeding}",
            )
            self._check_bootstrapping(f"{key}.bootstrap_truncated", config)
        for name, model in config.value_models.items():
            require(
                model.learns_from is None or (self.gamma == 1 and not self.bootstrap_truncated),
                f"{name}.learns_from must be null where {key}.gamma is below 1 or "
                f"{key}.bootstrap_truncated is true (continuations' returns are neither), got "
                f"{model.learns_from}",
            )

    def _check_bootstrapping(self, key: str, config: Any) -> None:
        """A value replaces the reward of a truncated response."""
        require(
            config.task.environment is None,
            f"{key} must be false with task.environment, got true",
        )
        for name, why in (
            ("mask_truncated", "nothing of what is bootstrapped would train the policy"),
            ("mask_equal_rewards", "truncated responses all count as reward 0"),
        ):
            require(
                not getattr(config.optimization, name),
                f"optimization.{name} must be false with {key} ({why}), got true",
            )
        require(
            config.task.grading.truncated_reward == 0,
            f"task.grading.truncated_reward must be 0 with {key} (a value stands in its place), "
            f"got {config.task.grading.truncated_reward}",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        return [self._advantages(rollout) for rollout in rollouts_G]

    def _advantages(self, rollout: Rollout) -> list[float]:
        is_token = self.level == "token"
        rewards = rollout.rewards_T if is_token else step_sums(rollout.rewards_T, rollout.spans_S)
        values = rollout.state_values_T if is_token else rollout.state_values_S
        lambda_ = self.policy_lambda
        if lambda_ is None:
            assert self.length_adaptive_alpha is not None, "one λ: fixed or length-adaptive"
            length = rollout.num_actions if is_token else len(values)
            lambda_ = length_adaptive_lambda(self.length_adaptive_alpha, length)
        lambdas = each_action(lambda_, rollout) if is_token else [lambda_] * len(values)
        gammas = each_action(self.gamma, rollout) if is_token else [self.gamma] * len(values)
        after = self._value_after(rollout, rollout.values_from)
        advantages = gae(rewards, values, gammas, lambdas, after)
        return advantages if is_token else broadcast(advantages, rollout.spans_S)

    def returns(self, rollout: Rollout) -> list[float]:
        return reward_to_go(rollout.rewards_T, self._gammas(rollout))

    def critic_targets(self, rollout: Rollout, predictor: str) -> list[float]:
        """A^GAE(critic_lambda) + V before any whitening, of the critic's own values.

        Decoupled GAE (VC-PPO, arXiv:2503.01491) has another λ here than for the policy. With
        critic_lambda = 1 targets are the reward to go, and the discounted V_T of a bootstrapped
        response. They are over tokens; a γ per step discounts between steps. Rewards [0, 1], values
        [0.5, 0.25], γ = 1, λ = 0.5: advantages [0.125, 0.75], targets [0.625, 1].
        """
        lambdas_T = each_action(self.critic_lambda, rollout)
        values_T, after = rollout.values_T(predictor), self._value_after(rollout, predictor)
        advantages_T = gae(rollout.rewards_T, values_T, self._gammas(rollout), lambdas_T, after)
        return [advantage + value for advantage, value in zip(advantages_T, values_T, strict=True)]

    def _value_after(self, rollout: Rollout, predictor: str | None) -> float:
        """V of the state after the last token: 0 where the response has ended.

        With `bootstrap_truncated` a truncated response counts as unfinished: its last δ is
        γ V(s_T) − V(s_{T−1}). Pardo et al. 2018 (arXiv:1712.00378) call it partial-episode
        bootstrapping.
        """
        if not self.bootstrap_truncated or rollout.finish_reason != "length":
            return 0.0
        assert predictor is not None, "a predictor feeds it"
        return rollout.values_after[predictor]

    def _gammas(self, rollout: Rollout) -> list[float]:
        """What discounts the reward after each token: γ, at level "step" only between steps."""
        if self.level == "token":
            return each_action(self.gamma, rollout)
        ends = {span.end for span in rollout.action_spans_S}
        return [self.gamma if t + 1 in ends else 1.0 for t in range(len(rollout.rewards_T))]


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


def length_adaptive_lambda(alpha: float, length: int) -> float:
    """λ = 1 − 1/(alpha · length), clamped into [0, 1) (VAPO, arXiv:2504.05118, section 4.2).

    The weights of the δ that enter an advantage then sum to about 1/(1 − λ) = alpha · length: a
    fixed part of the response. `length_adaptive_lambda(0.05, 100) = 0.8`.
    """
    below_one = math.nextafter(1.0, 0.0)
    return min(max(1.0 - 1.0 / (alpha * length), 0.0), below_one)


def each_action(factor: float, rollout: Rollout) -> list[float]:
    """γ or λ after each token of the policy, 1 after an environment's."""
    return [factor if is_action else 1.0 for is_action in rollout.is_action_T]
