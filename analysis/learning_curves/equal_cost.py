"""Methods at equal cost: what the same iterations, updates, seconds or tokens have bought."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.intervals import (
    Estimate,
    iqm_difference,
    iqm_over_seeds,
    probability_of_improvement,
)
from analysis.learning_curves.cost_curves import COSTS, Cost, SeedCurve, seed_curves
from analysis.methods import Method
from analysis.stats.curves import area_between, common_support
from analysis.summary_file import estimate_columns


@dataclass(frozen=True)
class AtEqualCost:
    """A method at `budget`, the largest cost that every seed of every method has reached.

    `pass_at_1` and `mean` are interquartile means over seeds, of pass@1 at the budget and of its
    mean over the costs up to it (the area under the curve), evaluations joined by straight lines.
    `difference` and `improvement` compare pass@1 with that of the first method; None for it.
    """

    method: str
    cost: str
    budget: float
    pass_at_1: Estimate
    mean: Estimate
    difference: Estimate | None
    improvement: Estimate | None


def at_equal_cost(methods: Sequence[Method]) -> list[AtEqualCost]:
    """By cost, then by method. A cost that some method does not know is left out, and one at which
    some seed ends before another begins.
    """
    return [
        one
        for cost in COSTS
        for curves in [known_curves(methods, cost)]
        if curves is not None and _overlap([curve.costs for of in curves for curve in of])
        for one in _compared(cost, [method.name for method in methods], curves)
    ]


def known_curves(methods: Sequence[Method], cost: Cost) -> list[list[SeedCurve]] | None:
    """The curves of every method's seeds; None where one of the methods does not know the cost."""
    curves = [seed_curves(method, cost) for method in methods]
    known = [of for of in curves if of is not None]
    return known if len(known) == len(curves) else None


def equal_cost_rows(compared: Sequence[AtEqualCost]) -> list[dict[str, Any]]:
    """The rows of `equal_cost.csv`."""
    return [
        {
            "method": one.method,
            "cost": one.cost,
            "budget": one.budget,
            **estimate_columns("pass_at_1", one.pass_at_1),
            **estimate_columns("mean_pass_at_1", one.mean),
            **estimate_columns("difference", one.difference),
            **estimate_columns("improvement", one.improvement),
        }
        for one in compared
    ]


def _overlap(costs: Sequence[Sequence[float]]) -> bool:
    return max(of[0] for of in costs) < min(of[-1] for of in costs)


def _compared(
    cost: Cost, names: Sequence[str], curves: Sequence[Sequence[SeedCurve]]
) -> list[AtEqualCost]:
    low, budget = common_support([curve.costs for of in curves for curve in of])
    scores = [[float(curve.at([budget])[0]) for curve in of] for of in curves]
    return [
        AtEqualCost(
            method=name,
            cost=cost.field,
            budget=budget,
            pass_at_1=iqm_over_seeds(scores_N),
            mean=iqm_over_seeds(
                [area_between(curve.costs, curve.scores, low, budget) for curve in of]
            ),
            difference=iqm_difference(scores_N, scores[0]) if index else None,
            improvement=probability_of_improvement(scores_N, scores[0]) if index else None,
        )
        for index, (name, of, scores_N) in enumerate(zip(names, curves, scores, strict=True))
    ]
