"""What the estimators share that compare the G rollouts of one problem."""

import math
from collections.abc import Sequence

from vineppo.types import Trajectory


def group_returns(trajectories_G: Sequence[Trajectory]) -> list[float]:
    """The undiscounted return Σ_t r_t of every rollout."""
    return [sum(trajectory.rewards_T) for trajectory in trajectories_G]


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
    advantages_G: Sequence[float], trajectories_G: Sequence[Trajectory]
) -> list[list[float]]:
    """Every rollout's one advantage on each of its tokens."""
    return [
        [advantage] * len(trajectory.rewards_T)
        for advantage, trajectory in zip(advantages_G, trajectories_G, strict=True)
    ]
