"""A learned value's advantage, made unbiased by continuations of a few random states.

An independent coin samples each boundary s_j between steps with probability p. The K continuations
there have the mean V̂(s_j). With any values v, and v(s_S) = R,

    A_i = A_i^GAE(λ = 1 − p, γ = 1) + V̂(s_τ) − v(s_τ),    τ the first sampled state after s_i

and without the correction where there is none. Given the rollout and all continuations, τ = j has
the probability w_j = p (1 − p)^(j−i−1), and none is sampled with w = (1 − p)^(S−i−1). These are the
weights that the λ-return gives to v(s_j) and to R, so that

    E[A_i | …] = Σ_j w_j v(s_j) + w R − v(s_i) + Σ_j w_j (V̂(s_j) − v(s_j))
               = Σ_j w_j V̂(s_j) + w R − v(s_i)

which is an unbiased Q̂ whatever v says of the later states. v(s_i) must be a fair baseline, which
does not depend on the action at s_i. Nothing is divided by p. The usual correction v + (V̂ − v)/p
of the next state alone (Jiang and Li 2016, arXiv:1511.03722) has for exact v the variance of V̂
over p. That is no less than with p K continuations of every state, and more than this one has in
experiments/14_bias.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema.scalars import Count, PositiveFraction
from vineppo.config.schema.values import MonteCarloValues
from vineppo.credit import Credit
from vineppo.credit.gae import gae
from vineppo.credit.vine import broadcast, step_sums
from vineppo.recipes.cuts import CoinCuts
from vineppo.types import CRITIC, MONTE_CARLO, Rollout, StateValue


@dataclass(frozen=True)
class DoublyRobustCredit(Credit):
    """Any values by steps, corrected by `num_continuations` of some states.

    Each step boundary is sampled with that `probability`; λ = 1 − `probability`.
    """

    fed_by = CRITIC

    num_continuations: Count
    probability: PositiveFraction

    @property
    def monte_carlo(self) -> MonteCarloValues:
        # Kept apart: a state that rollouts share would be sampled with more than `probability`.
        coin = CoinCuts("coin", self.probability)
        return MonteCarloValues("monte_carlo", self.num_continuations, "separate", coin)

    def check(self, key: str, config: Any) -> None:
        feeding = config.values.credit
        sampled = config.continuations.get(feeding)
        require(
            sampled is None or sampled.states is None,
            "values.credit must be a predictor of all states' values, such as a critic, for "
            f"{key}.kind 'doubly_robust', got {feeding or 'null'}",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        """Every rollout's own continuations correct its values; one advantage a step."""
        return [
            broadcast(
                doubly_robust_advantages(
                    step_sums(rollout.rewards_T, rollout.spans_S),
                    rollout.state_values_S,
                    rollout.returns_S[MONTE_CARLO],
                    self.probability,
                ),
                rollout.spans_S,
            )
            for rollout in rollouts_G
        ]


def doubly_robust_advantages(
    rewards_S: Sequence[float],
    values_S: Sequence[float],
    states_S: Sequence[StateValue],
    probability: float,
) -> list[float]:
    """GAE and the correction of the first sampled state after each step.

    Rewards [0, 0, 1], values [0.5, 0.5, 0.25], p = 0.5 and V̂ = [–, –, 0.75]: the λ-returns after
    the steps are 0.5 · 0.5 + 0.5 · 0.625 = 0.5625, 0.625 and 1, the corrections 0.5, 0.5 and 0, and
    the advantages [0.5625, 0.625, 0.75].
    """
    num_steps = len(values_S)
    advantages_S = gae(rewards_S, values_S, [1.0] * num_steps, [1 - probability] * num_steps)
    correction = 0.0
    for i in reversed(range(num_steps)):
        advantages_S[i] += correction
        if states_S[i].returns_K:
            correction = states_S[i].mean - values_S[i]
    return advantages_S
