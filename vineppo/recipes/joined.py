"""Steps between sampled states, where what continuations say is joined with the outcomes.

Let M be a martingale under the policy, a predictor's or a constant. V − M is one as well, and three
kinds of draws say what it is:

    ê_h = V̂_h − M_h    of a sampled state h, as the mean of K
    e   = R − M_T      of the rollout's end
    e_j                of the problem's other rollouts, for the root

Where the tokens before a state choose whether it is sampled, all of them have the mean V − M given
the state. From the end on, a join of two of that mean with constant weights has it too. So E[after
| s_t, a_t] = Q(s_t, a_t) − M_{t+1} of the next sampled state behind any token t (optional
stopping). A join of the earlier ones is a fair baseline, as M holds nothing of the rollout's own
return:

    A_t = Δ_t + after − before,    Δ_t = M_{t+1} − M_t

A state alone (`vine`) throws away what the outcomes say of it, which for K = 1 is most.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema.scalars import Count, Name
from vineppo.credit.groups import group_returns
from vineppo.credit.vine import ContinuationCredit
from vineppo.types import MONTE_CARLO, Rollout


@dataclass(frozen=True)
class JoinedCredit(ContinuationCredit):
    """A_t = Δ_t + after − before for the tokens of every rollout.

    From the end on, e joins a sampled state's K draws as one; from the root on, the others' mean
    joins them as G − 1. Without a martingale that is the mean of the G − 1 outcomes, with one
    1/G Σ_{j≠i} e_j, as in `martingale.py`. M_0 = 0.5, Δ = [0.25, 0, −0.25, 0], R = 1, G = 2,
    the other's e = 0.5 and V̂ = 1 of K = 3 before token 2: ê there is 0.25 and e 0.5, so that the
    advantages are Δ + (0.75 + 0.5)/4 − 0.25 up to it, and Δ + 0.5 − (0.75 + 0.25)/4 behind it.

    States "coin" and "expected" are unbiased. `values.credit` may name a martingale. With a `root`
    the value that it gives s_0 stands in for the others' mean. It must hold nothing of the
    rollout's own return: `shrunk_mean` does not.
    """

    compares_rollouts = True
    reads_differences = True

    num_continuations: Count
    root: Name | None = None  # of `values.predictors`; null: the mean of the others

    def check(self, key: str, config: Any) -> None:
        super().check(key, config)
        held = config.values.predictors
        require(
            self.root is None or self.root in held,
            f"{key}.root must be one of values.predictors ({', '.join(held) or 'none'}), got "
            f"{self.root}",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        levels_GT = list(map(levels, rollouts_G))
        residuals_G = [
            reward - levels_T[-1]
            for reward, levels_T in zip(group_returns(rollouts_G), levels_GT, strict=True)
        ]
        total, others = math.fsum(residuals_G), len(rollouts_G) - 1
        advantages_G = []
        for residual, levels_T, rollout in zip(residuals_G, levels_GT, rollouts_G, strict=True):
            root = (total - residual) / max(1, others + has_martingale(rollout))
            if self.root is not None:
                root = rollout.values_S(self.root)[0] - levels_T[0]
            draws_S = [
                (state.mean - levels_T[span.start], len(state.returns_K))
                for state, span in zip(rollout.returns_S[MONTE_CARLO], rollout.spans_S, strict=True)
            ]
            # Joined from behind: all states and the end; from before: the root and all states.
            behind_Z = accumulate(reversed(draws_S), partial(joined, weight=1), initial=residual)
            before_Z = accumulate(draws_S, partial(joined, weight=others), initial=root)
            after_S, before_S = [*behind_Z][-2::-1], [*before_Z][1:]
            advantages_G.append(
                [
                    levels_T[t + 1] - levels_T[t] + after - before
                    for span, after, before in zip(rollout.spans_S, after_S, before_S, strict=True)
                    for t in range(span.start, span.end)
                ]
            )
        return advantages_G


def levels(rollout: Rollout) -> list[float]:
    """M of the states before the tokens and of the end; 0 without a martingale."""
    if not has_martingale(rollout):
        return [0.0] * (len(rollout.response_ids) + 1)
    return [*accumulate(rollout.differences_T, initial=rollout.state_values_S[0])]


def has_martingale(rollout: Rollout) -> bool:
    return rollout.values_from != MONTE_CARLO


def joined(other: float, draws: tuple[float, int], weight: int) -> float:
    """The mean of the draws with `other` as `weight` more: 1 of 3 and 0.5 of 1 are 0.875."""
    mean, number = draws
    return (number * mean + weight * other) / (number + weight) if number else other
