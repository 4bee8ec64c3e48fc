"""Errors and correlations of all predictors: at one checkpoint, or along training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis import figures
from analysis.value_accuracy.predictors import label
from analysis.value_accuracy.states import BOUNDARY
from analysis.value_accuracy.style import Row, by_name, legend_below, shown, styles, title

# statistic: (its floor or ceiling, name of the axis)
PANELS = {
    "mae": ("mae_floor", "mean absolute error"),
    "pearson": ("pearson_ceiling", "correlation, all states"),
    "pearson_within": ("pearson_within_ceiling", "correlation within problems"),
}
LIMIT_LABEL = "perfect MC"
LOG_RATIO = 5  # of the largest to the smallest error from which on the axis is logarithmic
Styles = Mapping[str, Mapping[str, Any]]


def draw_overview(rows: Sequence[Row], path: Path) -> list[Path]:
    """A row of panels a method, from the rows of the main table; returns what it wrote."""
    chosen = shown([row for row in rows if row["group"] == BOUNDARY])
    methods = by_name(chosen)
    looks = styles([row["predictor"] for row in chosen])
    is_curve = any(len({row["checkpoint"] for row in of}) > 1 for of in methods.values())
    is_log = _are_far_apart(chosen)
    with figures.panels(len(methods), len(PANELS)) as (figure, axes):
        for index, of_method in enumerate(methods.values()):
            of_row = axes[len(PANELS) * index : len(PANELS) * (index + 1)]
            draw_method(of_row, of_method, looks, is_curve=is_curve, is_log=is_log)
        if is_curve:
            for predictor, look in looks.items():
                axes[0].plot([], [], label=label(predictor), **look)
            axes[0].plot([], [], color="0.3", linestyle=":", label=LIMIT_LABEL)
        legend_below(figure, axes[0])
        return figures.save(figure, path)


def draw_method(
    axes: Sequence[Axes], rows: Sequence[Row], looks: Styles, *, is_curve: bool, is_log: bool
) -> None:
    """The panels of a method: curves along its checkpoints, or dots where no method has several."""
    axes[0].set_title(title(rows), loc="left")
    for axis, (statistic, (limit, name)) in zip(axes, PANELS.items(), strict=True):
        if is_curve:
            _curves(axis, rows, statistic, limit, looks)
            axis.set_xlabel("iteration of the policy")
            axis.set_ylabel(name)
        else:
            _dots(axis, rows, statistic, limit, looks)
            axis.set_xlabel(name)
        if statistic == "mae":
            _scale_errors(axis, "y" if is_curve else "x", is_log)
    if not is_curve:
        for axis in axes[1:]:
            axis.set_yticklabels([])


def _dots(axis: Axes, rows: Sequence[Row], statistic: str, limit: str, looks: Styles) -> None:
    """A line of the panel a predictor, from top to bottom; a tick where a perfect one would be."""
    names = [name for name in looks if name in {row["predictor"] for row in rows}]
    by_predictor = {row["predictor"]: row for row in rows}
    for place, name in enumerate(names):
        row = by_predictor[name]
        if row[statistic] is not None:
            axis.errorbar([row[statistic]], [place], xerr=_arms(row, statistic), **looks[name])
        if row[limit] is not None and row["num_draws"]:
            axis.plot([row[limit]], [place], marker="|", markersize=9, color="0.3", linestyle="")
    axis.plot([], [], marker="|", markersize=9, color="0.3", linestyle="", label=LIMIT_LABEL)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_yticks(range(len(names)), list(map(label, names)))
    axis.grid(axis="x", color="0.9", linewidth=0.5)


def _curves(axis: Axes, rows: Sequence[Row], statistic: str, limit: str, looks: Styles) -> None:
    for name, look in looks.items():
        of_name = [row for row in rows if row["predictor"] == name]
        known = [row for row in of_name if row[statistic] is not None]
        limited = [row for row in of_name if row[limit] is not None and row["num_draws"]]
        if known:
            xs = [row["checkpoint"] for row in known]
            arms = [_arms(row, statistic) for row in known]
            bars = [[arm[side][0] for arm in arms] for side in (0, 1)]
            axis.errorbar(xs, [row[statistic] for row in known], yerr=bars, elinewidth=0.6, **look)
        if limited:
            xs = [row["checkpoint"] for row in limited]
            axis.plot(
                xs,
                [row[limit] for row in limited],
                color=look["color"],
                linestyle=":",
                linewidth=0.9,
            )
    figures.whole_iterations(axis)


def _are_far_apart(rows: Sequence[Row]) -> bool:
    """Whether a critic that knows nothing yet dwarfs all other errors, of any of the methods."""
    numbers = [row[name] for row in rows for name in ("mae", "mae_floor") if row["num_draws"]]
    numbers += [row["mae"] for row in rows]
    return min(numbers) > 0 and max(numbers) > LOG_RATIO * min(numbers)


def _scale_errors(axis: Axes, of: str, is_log: bool) -> None:
    """By ratios, or from 0."""
    if is_log:
        axis.set(**{f"{of}scale": "log"})
        scale = getattr(axis, f"{of}axis")
        scale.set_major_locator(LogLocator(subs=(1, 2, 5)))
        scale.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        scale.set_minor_formatter(NullFormatter())
    else:
        axis.set(**{f"{of}lim": (0, None)})


def _arms(row: Row, statistic: str) -> list[list[float]]:
    """How far the interval reaches below and above; no arms without one."""
    low, high = row[f"{statistic}_low"], row[f"{statistic}_high"]
    if low is None or high is None:
        return [[0.0], [0.0]]
    # A percentile interval may lie beside its number.
    return [[max(row[statistic] - low, 0.0)], [max(high - row[statistic], 0.0)]]
