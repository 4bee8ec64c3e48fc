"""REINFORCE with a leave-one-out baseline (Kool et al. 2019; Ahmadian et al. 2024)."""

from collections.abc import Sequence

from vineppo.config.schema import RlooCredit
from vineppo.credit.groups import group_returns, repeat_over_tokens, summed_differences
from vineppo.types import Trajectory


def rloo_advantages(returns_G: Sequence[float]) -> list[float]:
    """A_i = R_i − 1/(G − 1) Σ_{j≠i} R_j  (arXiv:2402.14740).

    The baseline is independent of rollout i, so the gradient is unbiased; it is G/(G − 1) times the
    distance to the group's mean. Returns [1, 0, 0.5] → [1 − 0.25, 0 − 0.75, 0.5 − 0.5].

    Raises `ValueError` for a group of one.
    """
    return [total / (len(returns_G) - 1) for total in summed_differences(returns_G)]


def rloo_credit(
    config: RlooCredit,  # noqa: ARG001 (an estimator without parameters)
    trajectories_G: Sequence[Trajectory],
) -> list[list[float]]:
    """`rloo_advantages` of the returns, each on all tokens of its rollout."""
    return repeat_over_tokens(rloo_advantages(group_returns(trajectories_G)), trajectories_G)
