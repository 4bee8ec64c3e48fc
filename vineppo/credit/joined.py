"""Steps between sampled states, where what continuations say is joined with the outcomes.

Let M be a martingale under the policy, a predictor's or a constant. V − M is one as well, and three
kinds of draws say what it is:

    ê_h = V̂_h − M_h    of a sampled state h, as the mean of K
    e   = R − M_T      of the rollout's end
    e_j                of the problem's other rollouts, for the root

At a state h that the tokens before it choose, E[ê_h | s_t, a_t] = Q(s_t, a_t) − M_{t+1} for every
token t before h, and so is E[e | s_t, a_t]. Whatever is joined of the later ones with weights that
do not look at them is thus unbiased, and whatever is joined of the earlier ones is a fair baseline:

    A_t = Δ_t + after − before,    Δ_t = M_{t+1} − M_t

A state alone (`vine`) throws away what the outcomes say of it, which for K = 1 is most.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate

from vineppo.config.schema import JoinedCredit
from vineppo.credit.groups import group_returns
from vineppo.types import MONTE_CARLO, Rollout


def joined_credit(
    config: JoinedCredit,  # noqa: ARG001 (what was sampled says it)
    rollouts_G: Sequence[Rollout],
) -> list[list[float]]:
    """A_t = Δ_t + after − before for the tokens of every rollout.

    From the end on, e joins a sampled state's K draws as one; from the root on, the others' mean
    joins them as G − 1. Without a martingale that is the mean of the G − 1 outcomes, with one
    1/G Σ_{j≠i} e_j, as in `credit/martingale.py`. M_0 = 0.5, Δ = [0.25, 0, −0.25, 0], R = 1, G = 2,
    the other's e = 0.5 and V̂ = 1 of K = 3 before token 2: ê there is 0.25 and e 0.5, so that the
    advantages are Δ + (0.75 + 0.5)/4 − 0.25 up to it, and Δ + 0.5 − (0.75 + 0.25)/4 behind it.
    """
    residuals_G = [
        total - list(levels(rollout))[-1]
        for total, rollout in zip(group_returns(rollouts_G), rollouts_G, strict=True)
    ]
    total, others = math.fsum(residuals_G), len(rollouts_G) - 1
    advantages_G = []
    for residual, rollout in zip(residuals_G, rollouts_G, strict=True):
        levels_T, states_S = list(levels(rollout)), rollout.returns_S[MONTE_CARLO]
        firsts_S = [levels_T[span.start] for span in rollout.spans_S]
        errors_S = [state.mean - level for state, level in zip(states_S, firsts_S, strict=True)]
        numbers_S = [len(state.returns_K) for state in states_S]
        after_S, after = [], residual
        for error, number in zip(reversed(errors_S), reversed(numbers_S), strict=True):
            after_S.append(after)
            after = joined(error, number, after, 1)
        before = (total - residual) / max(1, others + has_martingale(rollout))
        advantages_T = []
        for error, number, span, after in zip(
            errors_S, numbers_S, rollout.spans_S, reversed(after_S), strict=True
        ):
            before = joined(error, number, before, others)
            advantages_T += [
                levels_T[t + 1] - levels_T[t] + after - before for t in range(span.start, span.end)
            ]
        advantages_G.append(advantages_T)
    return advantages_G


def levels(rollout: Rollout) -> Iterator[float]:
    """M of the states before the tokens and of the end; 0 without a martingale."""
    if not has_martingale(rollout):
        return iter([0.0] * (len(rollout.response_ids) + 1))
    return accumulate(rollout.differences_T, initial=rollout.state_values_S[0])


def has_martingale(rollout: Rollout) -> bool:
    return rollout.values_from != MONTE_CARLO


def joined(own: float, number: int, other: float, weight: int) -> float:
    """`other` where there is no draw of one's own: 1 of 3 and 0.5 of 1 are 0.875."""
    return (number * own + weight * other) / (number + weight) if number else other
