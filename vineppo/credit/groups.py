"""Estimators that compare the G rollouts of a problem, its group, and take no values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.credit import Credit
from vineppo.types import Rollout

STD_EPSILON = 1e-6


@dataclass(frozen=True)
class GroupCredit(Credit):
    """An estimator of one advantage a rollout from the group's returns, on all its tokens."""

    compares_rollouts = True

    def of_returns(self, returns_G: Sequence[float]) -> list[float]:
        raise NotImplementedError

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        advantages_G = self.of_returns(group_returns(rollouts_G))
        pairs = zip(advantages_G, rollouts_G, strict=True)
        return [[advantage] * len(rollout.rewards_T) for advantage, rollout in pairs]


@dataclass(frozen=True)
class GrpoCredit(GroupCredit):
    """GRPO, the return relative to the group (arXiv:2402.03300, section 4.1.2)."""

    rescales = True

    normalize_std: bool = True

    def of_returns(self, returns_G: Sequence[float]) -> list[float]:
        return grpo_advantages(returns_G, self.normalize_std)


@dataclass(frozen=True)
class RlooCredit(GroupCredit):
    """REINFORCE with a leave-one-out baseline (Kool et al. 2019; Ahmadian et al. 2024)."""

    def of_returns(self, returns_G: Sequence[float]) -> list[float]:
        return rloo_advantages(returns_G)


def grpo_advantages(returns_G: Sequence[float], normalize_std: bool) -> list[float]:
    """A_i = (R_i − mean R) / (std R + 1e-6), or R_i − mean R (Dr. GRPO, arXiv:2503.20783).

    The deviation is the sample's, with G − 1, as in verl and TRL. Returns [1, 0, 0, 0] give
    [0.75, −0.25, −0.25, −0.25], over √(0.75/3): [1.5, −0.5, −0.5, −0.5] up to 2e-6.
    """
    centered_G = [total / len(returns_G) for total in summed_differences(returns_G)]
    if not normalize_std:
        return centered_G
    variance = math.fsum(centered**2 for centered in centered_G) / (len(returns_G) - 1)
    return [centered / (math.sqrt(variance) + STD_EPSILON) for centered in centered_G]


def rloo_advantages(returns_G: Sequence[float]) -> list[float]:
    """A_i = R_i − 1/(G − 1) Σ_{j≠i} R_j  (arXiv:2402.14740).

    The baseline is independent of rollout i. Returns [1, 0, 0.5] give [1 − 0.25, 0 − 0.75, 0].
    """
    return [total / (len(returns_G) - 1) for total in summed_differences(returns_G)]


def group_returns(rollouts_G: Sequence[Rollout]) -> list[float]:
    """The undiscounted return Σ_t r_t of every rollout."""
    return [sum(rollout.rewards_T) for rollout in rollouts_G]


def summed_differences(returns_G: Sequence[float]) -> list[float]:
    """Σ_j (R_i − R_j), that is G (R_i − mean R), for every i. [1, 0, 0] → [2, −1, −1].

    Equal returns give exactly 0 in any order. A mean would round, and a standard deviation near 0
    would magnify the rounding. Raises `ValueError` for a group of one.
    """
    if len(returns_G) < 2:
        raise ValueError(f"a group must have at least 2 rollouts, got {len(returns_G)}")
    return [math.fsum(mine - other for other in returns_G) for mine in returns_G]
