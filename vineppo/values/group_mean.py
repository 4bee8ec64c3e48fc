"""The mean reward of a problem's other rollouts, as the value of every state of a rollout."""

from collections.abc import Sequence

from vineppo.types import Rollout, by_problem
from vineppo.values import ValuePredictor


class GroupMean(ValuePredictor):
    """V(s) = 1/(G − 1) Σ_{j≠i} R_j for every state of rollout i: RLOO's baseline.

    It leaves the gradient unbiased, costs nothing, and ignores the step. Rewards [1, 0, 0.5] give
    0.25, 0.75 and 0.5.
    """

    takes_turns = True

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        for group_G in by_problem(rollouts):
            self.set_by_rollout(group_G, means_of_others(group_G))

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:
        """The problem's other rollouts stay the same."""
        self.set_as_rollouts(branches, rollouts)


def means_of_others(group_G: Sequence[Rollout]) -> list[float]:
    """The mean reward of a problem's other rollouts, for each; 0 for one alone."""
    total = sum(rollout.reward for rollout in group_G)
    others = max(len(group_G) - 1, 1)
    return [(total - rollout.reward) / others for rollout in group_G]
