"""pass@1 against what it cost: iterations, gradient steps, training time, sampled tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from analysis import figures
from analysis.intervals import iqm_over_seeds
from analysis.methods import Method
from analysis.reading import CurvePoint


@dataclass(frozen=True)
class Cost:
    """A field of `CurvePoint` that counts a cost, and how an axis names it.

    `units` are (the least, that much is one, its name): an axis that ends at `least` or beyond
    counts in them.
    """

    field: str
    label: str
    units: tuple[tuple[float, float, str], ...] = ((0, 1, ""),)

    def unit(self, most: float) -> tuple[float, str]:
        """The size of an axis' unit and the axis' label, for costs of up to `most`."""
        size, name = [(size, name) for least, size, name in self.units if most >= least][-1]
        return size, f"{self.label} ({name})" if name else self.label


ITERATION = Cost("iteration", "iteration")
GRADIENT_STEPS = Cost("gradient_steps", "gradient steps", ((0, 1, ""), (1e4, 1e3, "thousands")))
ELAPSED = Cost("elapsed_s", "training time", ((0, 1, "s"), (300, 60, "min"), (10_800, 3600, "h")))
TOKENS = Cost(
    "tokens_sampled",
    "sampled tokens",
    ((0, 1, ""), (1e4, 1e3, "thousands"), (1e6, 1e6, "millions")),
)
COSTS = (ITERATION, GRADIENT_STEPS, ELAPSED, TOKENS)


@dataclass(frozen=True)
class BandPoint:
    """pass@1 at a cost, and its 95 % interval where there is one."""

    cost: float
    pass_at_1: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class SeedCurve:
    """One run's pass@1 by a cost, which never falls."""

    costs: list[float]
    scores: list[float]

    def at(self, costs: Sequence[float]) -> np.ndarray:
        """pass@1 at `costs` within its own, the evaluations joined by straight lines."""
        return np.interp(costs, self.costs, self.scores)


def seed_curves(method: Method, cost: Cost) -> list[SeedCurve] | None:
    """Of every seed, the evaluations whose cost is known of all seeds; None where it is of none.

    The start has cost nothing, which alone tells nothing.
    """
    by_iteration = [method.at(iteration) for iteration in method.iterations]
    known = [rows for rows in by_iteration if all(_cost(row, cost) is not None for row in rows)]
    if len(known) < min(2, len(by_iteration)):
        return None
    return [
        SeedCurve([getattr(row, cost.field) for row in rows], [row.pass_at_1 for row in rows])
        for rows in zip(*known, strict=True)
    ]


def cost_curve(method: Method, cost: Cost) -> list[BandPoint]:
    """The interquartile mean of pass@1 over seeds at equal cost; nothing where it is not known.

    Seeds take other seconds and tokens for the same iteration, and what 100 s have bought is a
    question on equal seconds. So the curve of each seed is read off at common costs, those that the
    evaluations took on average, as far as every seed goes; the band then also covers that seeds
    differ in speed. The interquartile mean of an *iteration* drawn over its mean cost would answer
    for no cost in particular, with a band of scores that were reached at different ones. Where the
    seeds' costs are the same (iterations) the two agree.

    Of a method with one seed it is that run, its intervals over problems.
    """
    curves = seed_curves(method, cost)
    if curves is None:
        return []
    if len(curves) == 1:
        return points_of(next(iter(method.rows_by_seed.values())), cost)
    columns = [curve.costs for curve in curves]
    if all(column == columns[0] for column in columns):
        places, scores_XN = columns[0], np.array([curve.scores for curve in curves]).T
    else:
        places = _common_places(columns)
        scores_XN = np.array([curve.at(places) for curve in curves]).T
    points = []
    for place, scores_N in zip(places, scores_XN, strict=True):
        estimate = iqm_over_seeds(scores_N)
        points.append(BandPoint(place, estimate.value, estimate.low, estimate.high))
    return points


def points_of(curve: Sequence[CurvePoint], cost: Cost) -> list[BandPoint]:
    """The points of one curve whose cost is known."""
    return [
        BandPoint(x, point.pass_at_1, point.low, point.high)
        for point in curve
        if (x := _cost(point, cost)) is not None
    ]


def draw_curve(axis: Axes, index: int, name: str, points: Sequence[BandPoint], unit: float) -> None:
    """One line with its band of 95 % intervals; nothing of a curve whose cost is not known."""
    if not points:  # an empty line that is not clipped lies at (0, 0) and takes room there
        return
    style = figures.line_style(index)
    xs, ys = [point.cost / unit for point in points], [point.pass_at_1 for point in points]
    axis.plot(xs, ys, marker=figures.marker(index), label=name, clip_on=False, **style)
    banded = [
        (x, p.low, p.high)
        for x, p in zip(xs, points, strict=True)
        if p.low is not None and p.high is not None
    ]
    if banded:
        xs_banded, lows, highs = zip(*banded, strict=True)
        axis.fill_between(xs_banded, lows, highs, color=style["color"], alpha=0.18, linewidth=0)


def _cost(point: CurvePoint, cost: Cost) -> float | None:
    return getattr(point, cost.field)


def _common_places(columns: Sequence[Sequence[float]]) -> list[float]:
    """The mean costs of the evaluations within those that every seed covers, and their ends.

    Of (0, 10, 20) and (0, 20, 40): (0, 15, 20). None where a seed ends before another begins, as it
    may where the starting policy was not evaluated.
    """
    low, high = max(column[0] for column in columns), min(column[-1] for column in columns)
    if low > high:
        return []
    means = [float(np.mean(costs)) for costs in zip(*columns, strict=True)]
    return sorted({low, *(mean for mean in means if low < mean < high), high})
