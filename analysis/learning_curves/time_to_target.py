"""What it costs a method to reach a target, where some of its seeds never got there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import figures
from analysis.intervals import BOOTSTRAP_SEED, LEVEL, NUM_SEED_RESAMPLES, Estimate
from analysis.learning_curves.cost_curves import COSTS, Cost, SeedCurve
from analysis.learning_curves.equal_cost import known_curves
from analysis.methods import Method, method_curve
from analysis.stats.censored import (
    Survival,
    kaplan_meier,
    median_time,
    restricted_mean,
    time_to_target,
)
from analysis.stats.estimate import percentile_estimate
from analysis.stats.seed_bootstrap import draw_seeds
from analysis.summary_file import estimate_columns


@dataclass(frozen=True)
class TimeToTarget:
    """The cost of reaching `target`, over a method's seeds.

    `median` is Kaplan–Meier's, None where more than half of the seeds had not reached when last
    seen. `restricted_mean` is the mean of min(cost, horizon); `horizon`, the same of all methods,
    is the least cost at which a seed that had not reached was last seen, or where all have reached
    the cost of the last. So every seed is known up to it, and no resample of seeds is without.
    """

    method: str
    cost: str
    target: float
    num_seeds: int
    num_reached: int
    median: float | None
    horizon: float
    restricted_mean: Estimate
    survival: Survival


def default_target(methods: Sequence[Method]) -> float:
    """The highest pass@1, in hundredths, that every method's interquartile mean reaches somewhere.

    Highest points of 0.359 and 0.328 make it 0.32.
    """
    lowest = min(max(point.pass_at_1 for point in method_curve(method)) for method in methods)
    return math.floor(100 * lowest + 1e-9) / 100


def times_to_target(methods: Sequence[Method], target: float) -> list[TimeToTarget]:
    """By cost, then by method. A cost that some method does not know is left out."""
    return [
        one
        for cost in COSTS
        for curves in [known_curves(methods, cost)]
        if curves is not None
        for one in _times(cost, [method.name for method in methods], curves, target)
    ]


def target_rows(times: Sequence[TimeToTarget]) -> list[dict[str, Any]]:
    """The rows of `time_to_target.csv`."""
    return [
        {
            "method": one.method,
            "cost": one.cost,
            "target": one.target,
            "num_seeds": one.num_seeds,
            "num_reached": one.num_reached,
            "median": one.median,
            "horizon": one.horizon,
            **estimate_columns("restricted_mean", one.restricted_mean),
        }
        for one in times
    ]


def draw_times(axis: Axes, times: Sequence[TimeToTarget], cost: Cost) -> None:
    """The share of seeds that have reached the target by a cost, a line a method."""
    unit, label = cost.unit(max(one.survival.last for one in times))
    for index, one in enumerate(times):
        edges = [0.0, *one.survival.times, one.survival.last]
        reached = [0.0, *(1 - share for share in one.survival.shares)]
        xs, ys = [edge / unit for edge in edges], [*reached, reached[-1]]
        width = 1 + 0.3 * (len(times) - 1 - index)  # so that lines on one another show
        style = figures.line_style(index) | {"linewidth": width}
        axis.step(xs, ys, where="post", label=one.method, **style)
    axis.axvline(times[0].horizon / unit, color="0.7", linewidth=0.6, zorder=0)
    axis.set_xlabel(label)
    axis.set_xlim(left=0)
    axis.set_ylim(-0.02, 1.02)
    axis.set_ylabel(f"seeds at {times[0].target:g} (Kaplan–Meier)")


def _times(
    cost: Cost, names: Sequence[str], curves: Sequence[Sequence[SeedCurve]], target: float
) -> list[TimeToTarget]:
    reached = [[time_to_target(one.costs, one.scores, target) for one in of] for of in curves]
    pairs = [pair for of in reached for pair in of]
    lost = [time for time, is_reached in pairs if not is_reached]
    horizon = min(lost) if lost else max(time for time, _ in pairs)
    times = []
    for name, of in zip(names, reached, strict=True):
        times_N, is_reached_N = map(list, zip(*of, strict=True))
        survival = kaplan_meier(times_N, is_reached_N)
        times.append(
            TimeToTarget(
                method=name,
                cost=cost.field,
                target=target,
                num_seeds=len(of),
                num_reached=sum(is_reached_N),
                median=median_time(survival),
                horizon=horizon,
                restricted_mean=_over_seeds(restricted_mean(survival, horizon), times_N, horizon),
                survival=survival,
            )
        )
    return times


def _over_seeds(value: float, times_N: Sequence[float], horizon: float) -> Estimate:
    """`value` with its bootstrap over seeds, of whose resamples it is a plain mean."""
    if len(times_N) < 2:
        return Estimate(value, None, None)
    drawn_RN = draw_seeds(len(times_N), NUM_SEED_RESAMPLES, np.random.default_rng(BOOTSTRAP_SEED))
    means_R = np.minimum(times_N, horizon)[drawn_RN].mean(axis=1)
    return percentile_estimate(value, means_R, LEVEL)
