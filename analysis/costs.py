"""Curves of methods against a cost, and methods at equal cost.

A cost is a column of `learning_curves.csv`; the frames `rows` here are of that table.
"""

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from analysis import figures
from analysis.stats import seeds
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import iqm, iqm_difference
from analysis.tables import Table

# A method at `budget`, the largest cost that every seed of every method has reached:
# interquartile means over seeds of pass@1 there and of its mean over the costs up to it;
# `difference` is pass@1 less the first method's.
EQUAL_COST = Table(
    "equal_cost.csv",
    {"method": str, "cost": str, "budget": float}
    | dict.fromkeys(["pass@1", "mean_pass@1", "difference"], Estimate),
)
# The curve of a method against one cost.
POINTS = Table("", {"cost": float, "pass@1": Estimate})


@dataclass(frozen=True)
class Cost:
    """How an axis names a column that counts a cost.

    `units` are (the least cost that uses it, its size, its name). A log axis cannot show the start,
    where the cost is 0.
    """

    label: str
    units: tuple[tuple[float, float, str], ...] = ((0, 1, ""),)
    is_log: bool = False

    def unit(self, most: float) -> tuple[float, str]:
        """The size of an axis' unit and the axis' label, for costs of up to `most`."""
        size, name = [(size, name) for least, size, name in self.units if most >= least][-1]
        return size, f"{self.label} ({name})" if name else self.label

    def amount(self, number: float) -> str:
        """`50,852 sampled tokens`, `iteration 60`, `42 s of training time`."""
        if self.label == "iteration":
            return f"iteration {number:.0f}"
        size, unit = [(size, name) for least, size, name in self.units if number >= least][-1]
        shown = f"{number / size:,.0f}" if number >= 100 * size else f"{number / size:.3g}"
        return f"{shown} {unit} of {self.label}" if unit else f"{shown} {self.label}"

    def shown(self, curve: pd.DataFrame) -> pd.DataFrame:
        """The points of a curve that the axis has a place for."""
        return curve[curve["cost"] > 0] if self.is_log else curve


COSTS = {
    "iteration": Cost("iteration"),
    "elapsed_s": Cost("training time", ((0, 1, "s"), (300, 60, "min"), (10_800, 3600, "h"))),
    "tokens_sampled": Cost("sampled tokens", is_log=True),
}
Curve = tuple[np.ndarray, np.ndarray]  # of a seed: costs and pass@1
SCORE = "test pass@1 (95 % band)"
LEGEND_LETTERS = 20  # of a line of a legend beside the panels


def by_method(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): group for name, group in rows.groupby("method", sort=False)}


def seed_curves(rows: pd.DataFrame, cost: str) -> list[Curve]:
    """Costs and pass@1 of every seed of a method, at the evaluations that all of them have.

    None where the cost is unknown: the start has cost nothing, which alone tells nothing.
    """
    wide = rows.assign(cost=rows[cost].astype(float)).pivot(
        index="iteration", columns="seed", values=["cost", "pass@1"]
    )
    num_common = len(wide["pass@1"].dropna())
    wide = wide.dropna()
    if len(wide) < min(2, num_common):
        return []
    return [(wide["cost", s].to_numpy(), wide["pass@1", s].to_numpy()) for s in wide["cost"]]


def cost_curve(rows: pd.DataFrame, cost: str) -> pd.DataFrame:
    """A method's pass@1 at equal cost, with columns cost, pass@1, pass@1_low and pass@1_high.

    Every seed's curve is read off at the mean costs of the evaluations, as far as all seeds go. One
    seed is its own curve, with intervals over problems. An unknown cost gives no row.
    """
    curves = seed_curves(rows, cost)
    if not curves:
        return POINTS.frame([])
    if len(curves) == 1:
        return points_of(rows, cost)
    columns = np.array([costs for costs, _ in curves])
    low, high = columns[:, 0].max(), columns[:, -1].min()
    means = columns.mean(axis=0)
    inner = means[(means > low) & (means < high)]
    places = np.unique([low, *inner, high]) if low <= high else np.array([])
    scores_NX = [np.interp(places, *curve) for curve in curves]
    return POINTS.frame(
        {"cost": place, "pass@1": iqm(scores_N)}
        for place, scores_N in zip(places, np.transpose(scores_NX), strict=True)
    )


def points_of(curve: pd.DataFrame, cost: str) -> pd.DataFrame:
    """The points of one run's learning curve with a known cost, as `cost_curve` has them."""
    ends = {"low": "pass@1_low", "high": "pass@1_high"}
    curve = curve.assign(cost=curve[cost]).rename(columns=ends).dropna(subset="cost")
    return POINTS.frame(curve[["cost", "pass@1", *ends.values()]])


def at_equal_cost(rows: pd.DataFrame) -> pd.DataFrame:
    """`EQUAL_COST` by cost, then by method: costs that all know, over a stretch all seeds share."""
    results: list[dict[str, Any]] = []
    for cost in COSTS:
        curves = {name: seed_curves(group, cost) for name, group in by_method(rows).items()}
        curves = curves if all(curves.values()) else {}  # all methods know the cost, or none does
        reaches = [costs for pairs in curves.values() for costs, _ in pairs]
        support = seeds.common_support(reaches or [[0]])
        if support is None:
            continue
        low, budget = support
        baseline: list[float] | None = None
        for name, pairs in curves.items():
            scores = [float(np.interp(budget, *curve)) for curve in pairs]
            means = [seeds.area_under_curve(*curve, low, budget) for curve in pairs]
            row = {"method": name, "cost": cost, "budget": budget}
            row |= {"pass@1": iqm(scores), "mean_pass@1": iqm(means)}
            if baseline is not None:
                row["difference"] = iqm_difference(scores, baseline)
            baseline = baseline or scores
            results.append(row)
    return EQUAL_COST.frame(results)


@contextmanager
def cost_panels(
    curves: Mapping[str, Mapping[str, pd.DataFrame]], labels: Mapping[str, str]
) -> Iterator[Figure]:
    """A figure of curves by cost and method: a panel a cost that any of them knows.

    Of more than `MAX_SERIES` methods every row of panels has some, and its own legend.
    """
    known = [
        cost for cost in curves if any(len(COSTS[cost].shown(c)) for c in curves[cost].values())
    ]
    rows = np.array_split(list(labels), -(-len(labels) // figures.MAX_SERIES))
    styles = figures.method_styles(list(labels))
    if len(rows) > 1:
        labels = {
            name: textwrap.fill(text.replace(" seed", "\u00a0seed"), LEGEND_LETTERS)
            for name, text in labels.items()
        }
    with figures.panels(len(rows), len(known), 1.8 * (len(rows) > 1)) as (figure, axes):
        for number, names in enumerate(rows):
            of_row = axes[number * len(known) : (number + 1) * len(known)]
            for axis, cost in zip(of_row, known, strict=True):
                chosen = {str(name): curves[cost][str(name)] for name in names}
                draw_panel(axis, cost, chosen, labels, styles)
            if len(rows) > 1:
                of_row[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
        figures.label_rows(axes, SCORE)
        figures.same_ylim(axes)
        if len(rows) == 1:
            figures.shared_legend(figure, *axes)
        yield figure


def draw_panel(
    axis: Axes,
    cost: str,
    curves: Mapping[str, pd.DataFrame],
    labels: Mapping[str, str],
    styles: Mapping[str, dict[str, Any]],
) -> None:
    """Curves with their bands against one cost, by method as `cost_curve` has them."""
    shown = {name: COSTS[cost].shown(curve) for name, curve in curves.items()}
    reach = pd.concat([curve["cost"] for curve in shown.values()])
    size, _ = COSTS[cost].unit(max(reach, default=0.0))
    for name, curve in shown.items():
        style = styles[name] | {"label": labels[name]}
        figures.curve(axis, curve, "cost", "pass@1", style, scale=size)
    axis.set_xlabel(COSTS[cost].unit(max(reach, default=0.0))[1])
    if COSTS[cost].is_log and len(reach):
        figures.logarithmic(axis, 0.8 * reach.min(), 1.25 * reach.max(), EngFormatter(sep=" "))
    else:
        axis.set_xlim(left=0)
    if cost == "iteration":
        figures.whole_iterations(axis)
