"""ReMax: a greedy response's reward as the baseline (arXiv:2310.10505)."""

from collections.abc import Sequence
from dataclasses import dataclass

from vineppo.credit import Credit
from vineppo.credit.groups import group_returns
from vineppo.types import Rollout


@dataclass(frozen=True)
class RemaxCredit(Credit):
    """A_i = R_i − R(greedy), on all tokens of rollout i.

    The baseline depends on the prompt alone, so the gradient is unbiased. Returns [1, 0] and a
    greedy reward of 1 → 0 and −1.
    """

    samples_greedy = True

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        advantages_G = []
        for total, rollout in zip(group_returns(rollouts_G), rollouts_G, strict=True):
            assert rollout.greedy_reward is not None, "remax needs the greedy response"
            advantages_G.append([total - rollout.greedy_reward] * len(rollout.rewards_T))
        return advantages_G
