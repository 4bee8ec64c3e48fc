"""The reward less what a martingale says of the other tokens: step credit without a bias.

Let M_t be a value of the state before token t that is a martingale under the policy,
E[M_{t+1} | s_t] = M_t, whatever else it is. With Δ_t = M_{t+1} − M_t,

    A_t = Δ_t + R − M_T,    E[A_t | s_t, a_t] = Δ_t + Q(s_t, a_t) − M_{t+1} = Q(s_t, a_t) − M_t

so that A_t is an unbiased advantage, with a baseline that knows the state, for every M that holds
nothing of the rollout's own return. If M is the policy's value, R = M_T for a reward that the text
decides, and A_t is the exact advantage; if M is constant, A_t is REINFORCE's. M bounds no bias, it
buys variance: a control variate (for its use see `values/posterior.py`).
"""

import math
from collections.abc import Sequence

from vineppo.config.schema import MartingaleCredit
from vineppo.credit.groups import group_returns, rloo_advantages
from vineppo.types import Rollout


def martingale_credit(
    config: MartingaleCredit,  # noqa: ARG001 (an estimator without parameters)
    rollouts_G: Sequence[Rollout],
) -> list[list[float]]:
    """A_t = Δ_t + e_i − 1/(G − 1) Σ_{j≠i} e_j with the residuals e_i = R_i − Σ_t Δ_t of a group.

    The others' residuals are a baseline as the others' returns are in RLOO, which this is where all
    Δ are 0. Returns [1, 0] with Δ = [[0.5, 0], [−0.25, 0]]: e = 0.5, 0.25, and the advantages are
    [0.5 + 0.25, 0.25] and [−0.25 − 0.25, −0.25].
    """
    differences_GT = [rollout.differences_T for rollout in rollouts_G]
    returns_G = group_returns(rollouts_G)
    residuals_G = [
        total - math.fsum(differences_T)
        for total, differences_T in zip(returns_G, differences_GT, strict=True)
    ]
    return [
        [difference + advantage for difference in differences_T]
        for advantage, differences_T in zip(
            rloo_advantages(residuals_G), differences_GT, strict=True
        )
    ]
