"""The reward less what a martingale says of the other tokens: step credit without a bias.

Let M_t be a value of the state before token t that is a martingale under the policy,
E[M_{t+1} | s_t] = M_t, whatever else it is. With Δ_t = M_{t+1} − M_t,

    A_t = Δ_t + R − M_T,    E[A_t | s_t, a_t] = Δ_t + Q(s_t, a_t) − M_{t+1} = Q(s_t, a_t) − M_t

so that A_t is an unbiased advantage, with a baseline that knows the state, for every M that holds
nothing of the rollout's own return. If M is the policy's value, R = M_T for a reward that the text
decides, and A_t is the exact advantage; if M is constant, A_t is REINFORCE's. M bounds no bias, it
buys variance: a control variate (for its use see `values/posterior.py`).

Where continuations value some states, V̂_h − M_h at state h is another draw of what R − M_T is from
there on. V − M is a martingale as well, so that at any state h that is chosen by the tokens before
it, E[V̂_h − M_h | s_t, a_t] = Q(s_t, a_t) − M_{t+1} for the tokens t before h, and V̂_l − M_l of the
last such state l up to s_t is a fair part of the baseline.
"""

import math
from collections.abc import Sequence
from itertools import accumulate

from vineppo.config.schema import MartingaleCredit, MartingaleCutsCredit
from vineppo.credit.groups import group_returns
from vineppo.types import MONTE_CARLO, Rollout


def martingale_credit(
    config: MartingaleCredit,  # noqa: ARG001 (an estimator without parameters)
    rollouts_G: Sequence[Rollout],
) -> list[list[float]]:
    """A_t = Δ_t + e_i − 1/G Σ_{j≠i} e_j with the residuals e_i = R_i − M_0 − Σ_t Δ_t of a group.

    The others' residuals are a baseline as the others' returns are in RLOO, but for one more of 0:
    what M_0 says of the problem counts as much as one rollout, so that few do not add more noise
    than they take away. Returns [1, 0] with M_0 = 0.5 and Δ = [[0.5, 0], [−0.25, 0]]: e = 0 and
    −0.25, and the advantages are [0.5 + 0.125, 0.125] and [−0.25 − 0.25, −0.25].
    """
    advantages_G = shrunk_advantages(residuals_of(rollouts_G))
    return [
        [difference + advantage for difference in rollout.differences_T]
        for advantage, rollout in zip(advantages_G, rollouts_G, strict=True)
    ]


def martingale_cuts_credit(
    config: MartingaleCutsCredit,  # noqa: ARG001 (what was sampled says it)
    rollouts_G: Sequence[Rollout],
) -> list[list[float]]:
    """A_t = Δ_t + ê_after − ê_before, of the sampled states after token t and up to it.

    Of a state with K returns ê = V̂ − M joins, as K draws, what lies beyond: after it ê of the next
    one, as one draw, and that of the end is e; before it that of the last one, as G − 1 draws, and
    that of the root is 1/G Σ_{j≠i} e_j. M_0 = 0.5, Δ = [0.25, 0, −0.25, 0], R = 1, G = 2 with the
    other's e = 0.5, and V̂ = 1 of K = 3 before token 2: ê there is 0.25, after it e = 0.5, so that
    the advantages are Δ + (0.75 + 0.5)/4 − 0.25 up to it, and Δ + 0.5 − (0.75 + 0.25)/4 behind.
    """
    residuals_G = residuals_of(rollouts_G)
    total, others = math.fsum(residuals_G), len(rollouts_G) - 1
    advantages_G = []
    for residual, rollout in zip(residuals_G, rollouts_G, strict=True):
        differences_T, states_S = rollout.differences_T, rollout.returns_S[MONTE_CARLO]
        values_T = [*accumulate(differences_T, initial=rollout.state_values_S[0])]
        levels_S = [values_T[span.start] for span in rollout.spans_S]
        errors_S = [state.mean - level for state, level in zip(states_S, levels_S, strict=True)]
        numbers_S = [len(state.returns_K) for state in states_S]
        after_S, after = [], residual
        for error, number in zip(reversed(errors_S), reversed(numbers_S), strict=True):
            after_S.append(after)
            after = joined(error, number, after, 1)
        before, advantages_T = (total - residual) / len(rollouts_G), []
        for error, number, span, after in zip(
            errors_S, numbers_S, rollout.spans_S, reversed(after_S), strict=True
        ):
            before = joined(error, number, before, others)
            advantages_T += [d + after - before for d in differences_T[span.start : span.end]]
        advantages_G.append(advantages_T)
    return advantages_G


def joined(own: float, number: int, other: float, weight: int) -> float:
    """`other` where there is no draw of one's own: 1 of 3 and 0.5 of 1 are 0.875."""
    return (number * own + weight * other) / (number + weight) if number else other


def residuals_of(rollouts_G: Sequence[Rollout]) -> list[float]:
    """e = R − M_T."""
    return [
        total - rollout.state_values_S[0] - math.fsum(rollout.differences_T)
        for total, rollout in zip(group_returns(rollouts_G), rollouts_G, strict=True)
    ]


def shrunk_advantages(residuals_G: Sequence[float]) -> list[float]:
    """e_i − 1/G Σ_{j≠i} e_j: residuals [0.5, 0.25] → [0.5 − 0.125, 0.25 − 0.25]."""
    total = math.fsum(residuals_G)
    return [own - (total - own) / len(residuals_G) for own in residuals_G]
