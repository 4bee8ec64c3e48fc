"""ReMax: the greedy response's reward as the baseline (arXiv:2310.10505)."""

from collections.abc import Sequence

from vineppo.config.schema import RemaxCredit
from vineppo.credit.groups import group_returns, repeat_over_tokens
from vineppo.types import Trajectory


def remax_credit(
    config: RemaxCredit,  # noqa: ARG001 (an estimator without parameters)
    trajectories_G: Sequence[Trajectory],
) -> list[list[float]]:
    """A_i = R_i − R(greedy), on all tokens of rollout i.

    The baseline depends on the prompt alone, so the gradient is unbiased. Returns [1, 0] and a
    greedy reward of 1 → 0 and −1.
    """
    greedy_G = [_greedy_reward(trajectory) for trajectory in trajectories_G]
    returns_G = group_returns(trajectories_G)
    advantages_G = [mine - greedy for mine, greedy in zip(returns_G, greedy_G, strict=True)]
    return repeat_over_tokens(advantages_G, trajectories_G)


def _greedy_reward(trajectory: Trajectory) -> float:
    assert trajectory.greedy_reward is not None, "remax needs the reward of the greedy response"
    return trajectory.greedy_reward
