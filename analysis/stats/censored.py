"""Times to a target where some runs never got there: they tell that it takes longer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Survival:
    """Kaplan–Meier: the estimated share of runs that have *not* reached the target.

    It is 1 before `times[0]`, `shares[i]` from `times[i]` on, and is known up to `last`, the
    longest time at which a run was watched.
    """

    times: tuple[float, ...]
    shares: tuple[float, ...]
    last: float


def time_to_target(
    costs: Sequence[float], scores: Sequence[float], target: float
) -> tuple[float, bool]:
    """The cost at which a run first scored `target`, and whether it did.

    Costs ascend. Nothing is interpolated: it was reached at the first evaluation that shows it. A
    run that never shows it was watched up to its last cost.

    Costs (0, 10, 20), scores (0.3, 0.6, 0.5): (10, True) of 0.5, (20, False) of 0.7.
    """
    for cost, score in zip(costs, scores, strict=True):
        if score >= target:
            return cost, True
    return costs[-1], False


def kaplan_meier(times_N: Sequence[float], is_reached_N: Sequence[bool]) -> Survival:
    """S(t) = Π_{t_i ≤ t} (1 − d_i/n_i), d_i runs reaching at t_i of n_i not yet done or lost.

    Source: Kaplan & Meier, 1958. A run lost at the very time that another reaches was still there.
    Raises `ValueError` of no runs, or a time that is negative or not finite.

    Times 3, 5+, 6, 6, 8+ (+: never reached until then): S is 4/5 from 3 and 4/5 · 1/3 from 6.
    """
    times, is_reached = np.asarray(times_N, dtype=float), np.asarray(is_reached_N, dtype=bool)
    if len(times) == 0 or len(times) != len(is_reached):
        raise ValueError(f"needs a flag for each of some times, got {len(times)} times")
    if not np.all(np.isfinite(times) & (times >= 0)):
        raise ValueError("times_N must be finite and not negative")
    events = np.unique(times[is_reached])
    num_at_risk = np.array([(times >= event).sum() for event in events])
    num_reaching = np.array([(times[is_reached] == event).sum() for event in events])
    shares = np.cumprod(1 - num_reaching / num_at_risk)
    return Survival(tuple(map(float, events)), tuple(map(float, shares)), float(times.max()))


def median_time(survival: Survival) -> float | None:
    """The first time with S ≤ ½; None where more than half had not reached when last seen.

    Of 3, 5+, 6, 6, 8+: 6.
    """
    # Products such as 3/4 · 2/3 miss one half by a rounding.
    below = (t for t, s in zip(survival.times, survival.shares, strict=True) if s <= 0.5 + 1e-12)
    return next(below, None)


def restricted_mean(survival: Survival, horizon: float) -> float:
    """∫₀^horizon S(t) dt: the mean of min(time, horizon).

    Source: Royston & Parmar, 2013. To compare methods take one horizon that all of them were
    watched to. Raises `ValueError` for a horizon beyond `last` while some had not reached.

    Of 3, 5+, 6, 6, 8+ up to 8: 3 · 1 + 3 · 0.8 + 2 · 4/15 = 5.933.
    """
    if horizon < 0 or (horizon > survival.last and survival.shares[-1:] != (0.0,)):
        raise ValueError(f"horizon must be in 0..{survival.last}, got {horizon}")
    edges = np.minimum([0.0, *survival.times, max(horizon, *survival.times, 0.0)], horizon)
    return float(np.diff(edges) @ np.array([1.0, *survival.shares]))
