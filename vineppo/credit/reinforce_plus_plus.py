"""REINFORCE++ and its variant with a group baseline (arXiv:2501.03262).

The estimator's other half is its normalisation over the global batch, which is
`optimization.whiten_advantages` here: one problem's rollouts cannot see the batch.
"""

from collections.abc import Sequence

from vineppo.config.schema import ReinforcePlusPlusBaselineCredit, ReinforcePlusPlusCredit
from vineppo.credit.gae import reward_to_go
from vineppo.credit.groups import group_returns, repeat_over_tokens
from vineppo.credit.grpo import grpo_advantages
from vineppo.types import Trajectory


def reinforce_plus_plus_credit(
    config: ReinforcePlusPlusCredit, trajectories_G: Sequence[Trajectory]
) -> list[list[float]]:
    """A_t = Σ_{u≥t} γ^{u−t} r_u, the reward to go from each token.

    The paper's KL penalty is in `rewards_T` already where `reference.kl_in` is "reward". Rewards
    [−0.1, 0, 1], γ = 0.5 → [0.15, 0.5, 1].
    """
    return [reward_to_go(trajectory.rewards_T, config.gamma) for trajectory in trajectories_G]


def reinforce_plus_plus_baseline_credit(
    config: ReinforcePlusPlusBaselineCredit,  # noqa: ARG001 (an estimator without parameters)
    trajectories_G: Sequence[Trajectory],
) -> list[list[float]]:
    """A_i = R_i − mean R over the problem's rollouts, on all tokens of rollout i.

    Returns [1, 0, 0, 0] → 0.75 and −0.25. Raises `ValueError` for a group of one.
    """
    advantages_G = grpo_advantages(group_returns(trajectories_G), normalize_std=False)
    return repeat_over_tokens(advantages_G, trajectories_G)
