"""What `learning-curves` puts into summary.json, by method."""

from collections.abc import Sequence
from typing import Any

from analysis.learning_curves.equal_cost import AtEqualCost
from analysis.learning_curves.phases import MethodPhases
from analysis.learning_curves.summary import Summary
from analysis.learning_curves.time_to_target import TimeToTarget


def summary_content(
    summaries: Sequence[Summary],
    compared: Sequence[AtEqualCost],
    times: Sequence[TimeToTarget],
    phases: Sequence[MethodPhases],
) -> dict[str, Any]:
    """Comparisons are with `baseline`, the first method.

    `interval_over` is what the intervals of the start and the end resample, as in summary.csv.
    """
    target = {"target": times[0].target} if times else {}
    methods = {
        one.method: {
            "num_seeds": len(one.seeds),
            "interval_over": one.interval_over,
            "last_iteration": one.last_iteration,
            "elapsed_s": one.elapsed_s,
            "tokens_sampled": one.tokens_sampled,
            "start_pass@1": one.start,
            "end_pass@1": one.end,
            "mean_pass@1": one.area,
            **_compared(one),
            "at_equal_cost": _by_cost(one.method, compared, _equal_cost),
            "to_target": _by_cost(one.method, times, _to_target),
            "seconds_of_iteration": {
                name: part for of in phases if of.method == one.method
                for name, part in of.seconds.items()
            },
        }
        for one in summaries
    }  # fmt: skip
    return {"baseline": summaries[0].method, **target, "methods": methods}


def _by_cost(method: str, results: Sequence[Any], content: Any) -> dict[str, Any]:
    return {one.cost: content(one) for one in results if one.method == method}


def _equal_cost(one: AtEqualCost) -> dict[str, Any]:
    return {
        "budget": one.budget,
        "pass@1": one.pass_at_1,
        "mean_pass@1": one.mean,
        **_compared(one),
    }


def _to_target(one: TimeToTarget) -> dict[str, Any]:
    return {
        "num_reached": one.num_reached,
        "median": one.median,
        "horizon": one.horizon,
        "restricted_mean": one.restricted_mean,
    }


def _compared(one: Summary | AtEqualCost) -> dict[str, Any]:
    if one.difference is None:
        return {}
    return {"difference": one.difference, "improvement": one.improvement}
