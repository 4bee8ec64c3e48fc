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
from dataclasses import dataclass

from vineppo.credit import Credit
from vineppo.credit.groups import group_returns
from vineppo.types import Rollout


@dataclass(frozen=True)
class MartingaleCredit(Credit):
    """A_t = Δ_t + e_i − 1/G Σ_{j≠i} e_j with the residuals e_i = R_i − M_0 − Σ_t Δ_t of a group.

    The others' residuals and one more of 0 are the baseline, as the others' returns are in RLOO.
    M_0 counts as much as one rollout, so that few rollouts do not add noise. Returns [1, 0] with
    M_0 = 0.5 and Δ = [[0.5, 0], [−0.25, 0]]: e = 0 and −0.25, and the advantages are [0.5 + 0.125,
    0.125] and [−0.25 − 0.25, −0.25].
    """

    fed_by = "posterior"
    compares_rollouts = True
    reads_differences = True

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        residuals_G = [
            total - rollout.state_values_S[0] - math.fsum(rollout.differences_T)
            for total, rollout in zip(group_returns(rollouts_G), rollouts_G, strict=True)
        ]
        return [
            [difference + advantage for difference in rollout.differences_T]
            for advantage, rollout in zip(shrunk_advantages(residuals_G), rollouts_G, strict=True)
        ]


def shrunk_advantages(residuals_G: Sequence[float]) -> list[float]:
    """e_i − 1/G Σ_{j≠i} e_j: residuals [0.5, 0.25] → [0.5 − 0.125, 0.25 − 0.25]."""
    total = math.fsum(residuals_G)
    return [residual - (total - residual) / len(residuals_G) for residual in residuals_G]
