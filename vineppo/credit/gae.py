"""Generalised advantage estimation over a critic's values (Schulman et al. 2016, arXiv:1506.02438).

Lists are over the tokens or steps of one response; `values_T[t]` is of the state before token t.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vineppo.config.require import require, require_one
from vineppo.config.schema.scalars import Positive, Share
from vineppo.credit import Credit, reward_to_go
from vineppo.credit.vine import broadcast, step_sums
from vineppo.types import CRITIC, Rollout


@dataclass(frozen=True)
class GaeCredit(Credit):
    """PPO: generalised advantage estimation over the values of tokens or steps.

    Level "step" sums rewards within steps and uses the values at step starts. γ and λ apply once a
    step, a length-adaptive λ counts steps, and every token has its step's advantage.
    """

    fed_by = CRITIC

    gamma: Share = 1.0  # per token, or per step for level "step"
    policy_lambda: Share | None = 1.0  # of the advantages; null: `length_adaptive_alpha`
    length_adaptive_alpha: Positive | None = None  # λ = 1 − 1/(alpha · response length), in [0, 1)
    critic_lambda: Share = 1.0  # λ of the critic's targets, always over tokens
    level: Literal["token", "step"] = "token"

    @property
    def reads(self) -> Literal["steps", "tokens"]:
        return "tokens" if self.level == "token" else "steps"

    def check(self, key: str, config: Any) -> None:
        feeding = config.values.credit
        require(
            self.level == "step" or gives_tokens(feeding, config),
            f"{key}.level must be 'step' with values.credit {feeding}, got 'token'",
        )
        sampled = config.continuations.get(feeding)
        require(
            sampled is None or sampled.states is None,
            f"values.predictors.{feeding}.states must be null for {key}.kind 'gae'",
        )
        lambdas = self.policy_lambda, self.length_adaptive_alpha
        require_one(f"{key}.policy_lambda", f"{key}.length_adaptive_alpha", *lambdas)
        for name, model in config.value_models.items():
            require(
                model.learns_from is None or (self.gamma == 1 and not self.bootstraps),
                f"{name}.learns_from must be null where {key}.gamma is below 1 or values replace "
                f"rewards (continuations' returns do neither), got {model.learns_from}",
            )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        return [self._advantages(rollout) for rollout in rollouts_G]

    def _advantages(self, rollout: Rollout) -> list[float]:
        by_step = self.level == "step"
        rewards = step_sums(rollout.rewards_T, rollout.spans_S) if by_step else rollout.rewards_T
        values = rollout.state_values_S if by_step else rollout.state_values_T
        lambda_ = self.policy_lambda
        if self.length_adaptive_alpha is not None:
            length = len(values) if by_step else sum(rollout.is_action_T)
            lambda_ = length_adaptive_lambda(self.length_adaptive_alpha, length)
        assert lambda_ is not None, "one λ: fixed or length-adaptive"
        gammas, lambdas = (
            [factor] * len(values) if by_step else each_action(factor, rollout)
            for factor in (self.gamma, lambda_)
        )
        after = self.value_after(rollout, rollout.values_from)
        advantages = gae(rewards, values, gammas, lambdas, after)
        return broadcast(advantages, rollout.spans_S) if by_step else advantages

    def returns(self, rollout: Rollout) -> list[float]:
        return reward_to_go(rollout.rewards_T, self._gammas(rollout))

    def critic_targets(self, rollout: Rollout, predictor: str) -> list[float]:
        """A^GAE(critic_lambda) + V of the critic itself (decoupled GAE: VC-PPO, arXiv:2503.01491).

        Rewards [0, 1], values [0.5, 0.25], γ = 1 and λ = 0.5 give [0.625, 1].
        """
        lambdas_T = each_action(self.critic_lambda, rollout)
        values_T, after = rollout.values_T(predictor), self.value_after(rollout, predictor)
        advantages_T = gae(rollout.rewards_T, values_T, self._gammas(rollout), lambdas_T, after)
        return [advantage + value for advantage, value in zip(advantages_T, values_T, strict=True)]

    def value_after(self, rollout: Rollout, predictor: str | None) -> float:  # noqa: ARG002
        """V of the state after the last token: the response has ended."""
        return 0.0

    def _gammas(self, rollout: Rollout) -> list[float]:
        """The discount after each token: γ, at level "step" only between steps."""
        if self.level == "token":
            return each_action(self.gamma, rollout)
        ends = {span.end for span in rollout.turns or rollout.spans_S}
        return [self.gamma if t + 1 in ends else 1.0 for t in range(len(rollout.rewards_T))]


def gives_tokens(predictor: str | None, config: Any) -> bool:
    """The predictor that feeds the estimator, null: the critic, values the states before tokens."""
    taken = config.values.predictors.get(predictor or "")
    return predictor in (None, CRITIC) or bool(taken and taken.predictor.gives == "tokens")


def gae(
    rewards_T: Sequence[float],
    values_T: Sequence[float],
    gammas_T: Sequence[float],
    lambdas_T: Sequence[float],
    value_after: float = 0.0,
) -> list[float]:
    """A_t = δ_t + γ_t λ_t A_{t+1},  δ_t = r_t + γ_t V_{t+1} − V_t  (arXiv:1506.02438, eq. 16).

    `value_after` is V_T. Rewards [0, 1], values [0.5, 0.25], γ = 1, λ = 0.5: A_1 = 0.75,
    A_0 = −0.25 + 0.5·0.75 = 0.125.
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
    """λ = 1 − 1/(alpha · length) within [0, 1) (VAPO, arXiv:2504.05118, section 4.2).

    The weights of the δ then sum to about alpha · length. Alpha 0.05 and length 100 give 0.8.
    """
    return min(max(1.0 - 1.0 / (alpha * length), 0.0), math.nextafter(1.0, 0.0))


def each_action(factor: float, rollout: Rollout) -> list[float]:
    """γ or λ after each token of the policy; 1 after an environment's, which credit so skips."""
    return [factor if is_action else 1.0 for is_action in rollout.is_action_T]
