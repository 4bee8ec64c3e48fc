"""REINFORCE++ (arXiv:2501.03262), with and without the group's mean as the baseline.

`optimization.whiten_advantages` is its normalisation over the batch, and `reference.kl_in` "reward"
its KL penalty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.config.schema.scalars import Share
from vineppo.credit import Credit, reward_to_go
from vineppo.credit.gae import each_action
from vineppo.credit.groups import GroupCredit, grpo_advantages
from vineppo.types import Rollout


@dataclass(frozen=True)
class ReinforcePlusPlusCredit(Credit):
    """A_t = Σ_{u≥t} γ^{u−t} r_u. Rewards [−0.1, 0, 1], γ = 0.5: [0.15, 0.5, 1]."""

    gamma: Share = 1.0

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        return [reward_to_go(r.rewards_T, each_action(self.gamma, r)) for r in rollouts_G]


@dataclass(frozen=True)
class ReinforcePlusPlusBaselineCredit(GroupCredit):
    """A_i = R_i − mean R over the problem's rollouts. Returns [1, 0, 0, 0]: 0.75 and −0.25."""

    def of_returns(self, returns_G: Sequence[float]) -> list[float]:
        return grpo_advantages(returns_G, normalize_std=False)
