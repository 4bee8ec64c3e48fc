"""GRPO: the return relative to the problem's other rollouts (arXiv:2402.03300, section 4.1.2)."""

import math
from collections.abc import Sequence

from vineppo.config.schema import GrpoCredit
from vineppo.credit.groups import group_returns, repeat_over_tokens, summed_differences
from vineppo.types import Trajectory

STD_EPSILON = 1e-6


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


def grpo_credit(config: GrpoCredit, trajectories_G: Sequence[Trajectory]) -> list[list[float]]:
    """`grpo_advantages` of the returns, each on all tokens of its rollout."""
    advantages_G = grpo_advantages(group_returns(trajectories_G), config.normalize_std)
    return repeat_over_tokens(advantages_G, trajectories_G)
