"""What pass@1 costs: methods at equal cost, and the cost of first showing a target.

A cost is a column of `learning_curves.csv`; the frames `rows` here are of that table.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import figures
from analysis.frames import common_iterations
from analysis.stats import seeds
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import iqm, iqm_difference, probability_of_improvement
from analysis.tables import Table

# A method at `budget`, the largest cost that every seed of every method has reached:
# interquartile means over seeds of pass@1 there and of its mean over the costs up to it;
# `difference` and `improvement` compare pass@1 with the first method's.
EQUAL_COST = Table(
    "equal_cost.csv",
    {
        "method": str,
        "cost": str,
        "budget": float,
        "pass@1": Estimate,
        "mean_pass@1": Estimate,
        "difference": Estimate,
        "improvement": Estimate,
    },
)
# The cost of first showing `target`. `median` is Kaplan–Meier's, empty where more than half of the
# seeds had not reached when last seen. `restricted_mean` is the mean of min(cost, horizon);
# `horizon`, the same of all methods, is the least cost at which a seed that had not reached was
# last seen, or where all have reached the cost of the last. So every seed is known up to it.
TIME_TO_TARGET = Table(
    "time_to_target.csv",
    {
        "method": str,
        "cost": str,
        "target": float,
        "num_seeds": int,
        "num_reached": int,
        "median": float | None,
        "horizon": float,
        "restricted_mean": Estimate,
    },
)


@dataclass(frozen=True)
class Cost:
    """How an axis names a column of `learning_curves.csv` that counts a cost.

    `units` are (the least, that much is one, its name): an axis that ends at `least` or beyond
    counts in them.
    """

    label: str
    units: tuple[tuple[float, float, str], ...] = ((0, 1, ""),)

    def unit(self, most: float) -> tuple[float, str]:
        """The size of an axis' unit and the axis' label, for costs of up to `most`."""
        size, name = [(size, name) for least, size, name in self.units if most >= least][-1]
        return size, f"{self.label} ({name})" if name else self.label


COSTS = {
    "iteration": Cost("iteration"),
    "gradient_steps": Cost("gradient steps", ((0, 1, ""), (1e4, 1e3, "thousands"))),
    "elapsed_s": Cost("training time", ((0, 1, "s"), (300, 60, "min"), (10_800, 3600, "h"))),
    "tokens_sampled": Cost(
        "sampled tokens", ((0, 1, ""), (1e4, 1e3, "thousands"), (1e6, 1e6, "millions"))
    ),
}
TIMES = "(Kaplan–Meier); grey: the horizon of the restricted means"
MAX_COLUMNS = 3


def by_method(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): group for name, group in rows.groupby("method", sort=False)}


def at_costs(rows: pd.DataFrame, cost: str) -> pd.DataFrame | None:
    """A method's evaluations by iteration, columns ("cost", seed) and ("pass@1", seed).

    Those that every seed has, where the cost is known of all. None where it is of none: the start
    has cost nothing, which alone tells nothing.
    """
    wide = rows.assign(cost=rows[cost].astype(float)).pivot(
        index="iteration", columns="seed", values=["cost", "pass@1"]
    )
    num_common = len(wide["pass@1"].dropna())
    known = wide.dropna()
    return None if len(known) < min(2, num_common) else known


def all_at_costs(rows: pd.DataFrame, cost: str) -> dict[str, pd.DataFrame] | None:
    """`at_costs` of every method; None where one of them does not know the cost."""
    methods = by_method(rows)
    tables = {name: at_costs(group, cost) for name, group in methods.items()}
    known = {name: wide for name, wide in tables.items() if wide is not None}
    return known if len(known) == len(methods) else None


def seed_curves(wide: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Costs and scores of every seed of `at_costs`."""
    return [(wide["cost", s].to_numpy(), wide["pass@1", s].to_numpy()) for s in wide["cost"]]


def cost_curve(rows: pd.DataFrame, cost: str) -> pd.DataFrame:
    """A method's pass@1 at equal cost, with columns cost, pass@1, pass@1_low and pass@1_high.

    Seeds take other seconds and tokens for the same iteration, and what 100 s have bought is a
    question on equal seconds. So the curve of each seed is read off at common costs, those that the
    evaluations took on average, as far as every seed goes; the band then also covers that seeds
    differ in speed. The interquartile mean of an *iteration* drawn over its mean cost would answer
    for no cost in particular. Where the seeds' costs are the same (iterations) the two agree.

    Of a method with one seed it is that run, its intervals over problems. It has no row where the
    cost is not known, or a seed ends before another begins.
    """
    wide = at_costs(rows, cost)
    if wide is None:
        return point_frame([])
    if rows["seed"].nunique() == 1:
        return points_of(rows, cost)
    curves = seed_curves(wide)
    columns = np.array([costs for costs, _ in curves])
    low, high = columns[:, 0].max(), columns[:, -1].min()
    means = columns.mean(axis=0)
    inner = means[(means > low) & (means < high)]
    places = np.unique([low, *inner, high]) if low <= high else np.array([])
    scores_NX = [np.interp(places, *curve) for curve in curves]
    return point_frame(
        [
            {"cost": place, "pass@1": iqm(scores_N)}
            for place, scores_N in zip(places, np.transpose(scores_NX), strict=True)
        ]
    )


def points_of(curve: pd.DataFrame, cost: str) -> pd.DataFrame:
    """The points of one run's learning curve whose cost is known, as `cost_curve` has them."""
    ends = {"low": "pass@1_low", "high": "pass@1_high"}
    curve = curve.assign(cost=curve[cost]).rename(columns=ends).dropna(subset="cost")
    return point_frame(curve[["cost", "pass@1", *ends.values()]])


def point_frame(rows: Any) -> pd.DataFrame:
    return Table("", {"cost": float, "pass@1": Estimate}).frame(rows)


def compared(scores_N: Any, baseline_M: Any) -> dict[str, Estimate]:
    """The comparison of a method's scores with the first method's; nothing for itself."""
    if baseline_M is None:
        return {}
    return {
        "difference": iqm_difference(scores_N, baseline_M),
        "improvement": probability_of_improvement(scores_N, baseline_M),
    }


def at_equal_cost(rows: pd.DataFrame) -> pd.DataFrame:
    """`EQUAL_COST` by cost, then by method.

    A cost that some method does not know is left out, and one at which some seed ends before
    another begins.
    """
    results: list[dict[str, Any]] = []
    for cost in COSTS:
        wide = all_at_costs(rows, cost)
        curves = {name: seed_curves(table) for name, table in (wide or {}).items()}
        support = seeds.common_support(
            [costs for pairs in curves.values() for costs, _ in pairs] or [[0]]
        )
        if support is None:
            continue
        low, budget = support
        baseline: list[float] | None = None
        for name, pairs in curves.items():
            scores = [float(np.interp(budget, *curve)) for curve in pairs]
            means = [seeds.area_under_curve(*curve, low, budget) for curve in pairs]
            row = {"method": name, "cost": cost, "budget": budget}
            row |= {"pass@1": iqm(scores), "mean_pass@1": iqm(means)}
            results.append(row | compared(scores, baseline))
            baseline = scores if baseline is None else baseline
    return EQUAL_COST.frame(results)


def default_target(rows: pd.DataFrame) -> float:
    """The highest pass@1, in hundredths, that every method's interquartile mean reaches somewhere.

    Highest points of 0.359 and 0.328 make it 0.32.
    """
    curves = [
        cost_curve(group, "iteration") for group in by_method(common_iterations(rows)).values()
    ]
    return math.floor(100 * min(curve["pass@1"].max() for curve in curves) + 1e-9) / 100


def reached(rows: pd.DataFrame, target: float) -> pd.DataFrame:
    """When every seed first showed the target, or was last seen, by cost and method.

    Columns: cost, method, time, is_reached, horizon (see `TIME_TO_TARGET`). A cost that some method
    does not know is left out.
    """
    times = pd.DataFrame(
        [
            (cost, name, *seeds.time_to_target(*curve, target))
            for cost in COSTS
            for name, wide in (all_at_costs(rows, cost) or {}).items()
            for curve in seed_curves(wide)
        ],
        columns=["cost", "method", "time", "is_reached"],
    )
    lost = times["time"].where(~times["is_reached"]).groupby(times["cost"]).transform("min")
    last = times.groupby("cost")["time"].transform("max")
    return times.assign(horizon=lost.fillna(last))


def times_to_target(rows: pd.DataFrame, target: float) -> pd.DataFrame:
    """`TIME_TO_TARGET` by cost, then by method."""
    return TIME_TO_TARGET.frame(
        [
            {
                "method": name,
                "cost": cost,
                "target": target,
                "num_seeds": len(group),
                "num_reached": group["is_reached"].sum(),
                "median": seeds.median_time(
                    *seeds.kaplan_meier(group["time"], group["is_reached"])
                ),
                "horizon": group["horizon"].iloc[0],
                "restricted_mean": seeds.mean(group[["time", "horizon"]].min(axis=1)),
            }
            for (cost, name), group in reached(rows, target).groupby(["cost", "method"], sort=False)
        ]
    )


def draw_times(rows: pd.DataFrame, target: float, path: Path) -> list[Path]:
    """A panel a cost of the share of seeds that have reached the target by it."""
    times = reached(rows, target)
    num_costs = times["cost"].nunique()
    with figures.grid(num_costs, 2 if num_costs == 4 else MAX_COLUMNS) as (figure, axes):
        for axis, (cost, group) in zip(axes, times.groupby("cost", sort=False), strict=True):
            draw_reached(axis, COSTS[str(cost)], group)
            axis.set_ylabel(f"seeds at {target:g} (Kaplan–Meier)")
        figures.caption(figure, f"seeds that have reached pass@1 {target:g} {TIMES}")
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def draw_reached(axis: Axes, cost: Cost, times: pd.DataFrame) -> None:
    """A line a method of `reached` against one cost, up to where its last seed was seen."""
    size, text = cost.unit(times["time"].max())
    names = list(times["method"].unique())
    styles, labels = figures.method_styles(names), figures.method_labels(names)
    for index, name in enumerate(names):
        group = times[times["method"] == name]
        places, shares = seeds.kaplan_meier(group["time"], group["is_reached"])
        width = 1 + 0.3 * (len(names) - 1 - index)  # so that lines on one another show
        style = styles[name] | {"linewidth": width, "marker": "", "label": labels[name]}
        axis.step([0, *(places / size)], [0, *(1 - shares)], where="post", **style)
    axis.axvline(times["horizon"].iloc[0] / size, color="0.7", linewidth=0.6, zorder=0)
    axis.set_xlabel(text)
    axis.set_xlim(left=0)
    axis.set_ylim(-0.02, 1.02)
