"""The estimators that give a whole rollout one advantage, most of them from its group.

A group is the G rollouts of one problem; advantages are repeated over the rollout's tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.config.schema.scalars import Fraction
from vineppo.credit import Credit, reward_to_go
from vineppo.credit.gae import each_action
from vineppo.types import Rollout

STD_EPSILON = 1e-6


@dataclass(frozen=True)
class GrpoCredit(Credit):
    """GRPO, the return relative to the group (arXiv:2402.03300, section 4.1.2)."""

    compares_rollouts = True

    normalize_std: bool = True

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        advantages_G = grpo_advantages(group_returns(rollouts_G), self.normalize_std)
        return repeat_over_tokens(advantages_G, rollouts_G)


@dataclass(frozen=True)
class RlooCredit(Credit):
    """REINFORCE with a leave-one-out baseline (Kool et al. 2019; Ahmadian et al. 2024)."""

    compares_rollouts = True

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        return repeat_over_tokens(rloo_advantages(group_returns(rollouts_G)), rollouts_G)


@dataclass(frozen=True)
class ReinforcePlusPlusCredit(Credit):
    """REINFORCE++ (arXiv:2501.03262): A_t = Σ_{u≥t} γ^{u−t} r_u, the reward to go from each token.

    The estimator's other half is its normalisation over the global batch, which is
    `optimization.whiten_advantages` here: one problem's rollouts cannot see the batch.
    The paper's KL penalty is in `rewards_T` already where `reference.kl_in` is "reward". Rewards
    [−0.1, 0, 1], γ = 0.5 → [0.15, 0.5, 1].
    """

    gamma: Fraction = 1.0

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        return [reward_to_go(r.rewards_T, each_action(self.gamma, r)) for r in rollouts_G]


@dataclass(frozen=True)
class ReinforcePlusPlusBaselineCredit(Credit):
    """REINFORCE++ with a group baseline: A_i = R_i − mean R over the problem's rollouts.

    Whitened over the batch like `ReinforcePlusPlusCredit`. Returns [1, 0, 0, 0] → 0.75 and −0.25.
    """

    compares_rollouts = True

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        advantages_G = grpo_advantages(group_returns(rollouts_G), normalize_std=False)
        return repeat_over_tokens(advantages_G, rollouts_G)


@dataclass(frozen=True)
class RemaxCredit(Credit):
    """ReMax (arXiv:2310.10505): A_i = R_i − R(greedy), on all tokens of rollout i.

    The baseline depends on the prompt alone, so the gradient is unbiased. Returns [1, 0] and a
    greedy reward of 1 → 0 and −1.
    """

    samples_greedy = True

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        advantages_G = []
        for total, rollout in zip(group_returns(rollouts_G), rollouts_G, strict=True):
            assert rollout.greedy_reward is not None, "remax needs the greedy response"
            advantages_G.append(total - rollout.greedy_reward)
        return repeat_over_tokens(advantages_G, rollouts_G)


def grpo_advantages(returns_G: Sequence[float], normalize_std: bool) -> list[float]:
    """A_i = (R_i − mean R) / (std R + 1e-6), or R_i − mean R (Dr. GRPO, arXiv:2503.20783).

    The paper does not say which standard deviation; this is the sample's, with G − 1, as in verl
    and TRL. All-equal returns give exactly 0. Returns [1, 0, 0, 0] → [0.75, −0.25, −0.25, −0.25],
    divided by std √(0.75/3) = 0.5: [1.5, −0.5, −0.5, −0.5] to 2e-6 of each.

    Raises `ValueError` for a group of one.
    """
    centered_G = [total / len(returns_G) for total in summed_differences(returns_G)]
    if not normalize_std:
        return centered_G
    variance = math.fsum(centered**2 for centered in centered_G) / (len(returns_G) - 1)
    return [centered / (math.sqrt(variance) + STD_EPSILON) for centered in centered_G]


def rloo_advantages(returns_G: Sequence[float]) -> list[float]:
    """A_i = R_i − 1/(G − 1) Σ_{j≠i} R_j  (arXiv:2402.14740).

    The baseline is independent of rollout i, so the gradient is unbiased; it is G/(G − 1) times the
    distance to the group's mean. Returns [1, 0, 0.5] → [1 − 0.25, 0 − 0.75, 0.5 − 0.5].

    Raises `ValueError` for a group of one.
    """
    return [total / (len(returns_G) - 1) for total in summed_differences(returns_G)]


def group_returns(rollouts_G: Sequence[Rollout]) -> list[float]:
    """The undiscounted return Σ_t r_t of every rollout."""
    return [sum(rollout.rewards_T) for rollout in rollouts_G]


def summed_differences(returns_G: Sequence[float]) -> list[float]:
    """Σ_j (R_i − R_j), that is G (R_i − mean R), for every i. [1, 0, 0] → [2, −1, −1].

    By differences and `fsum`, so that equal returns give exactly 0 and the order of the group makes
    no difference: a mean rounds, and a standard deviation near 0 would blow the rounding up.

    Raises `ValueError` for a group of one, which has nothing to be compared with.
    """
    if len(returns_G) < 2:
        raise ValueError(f"a group must have at least 2 rollouts, got {len(returns_G)}")
    return [math.fsum(mine - other for other in returns_G) for mine in returns_G]


def repeat_over_tokens(
    advantages_G: Sequence[float], rollouts_G: Sequence[Rollout]
) -> list[list[float]]:
    """Every rollout's one advantage on each of its tokens."""
    return [
        [advantage] * len(rollout.rewards_T)
        for advantage, rollout in zip(advantages_G, rollouts_G, strict=True)
    ]
