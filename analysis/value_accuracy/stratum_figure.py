"""Where the errors are: along the response, by outcome and by true value."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import figures
from analysis.value_accuracy.predictors import label
from analysis.value_accuracy.strata import NUM_POSITIONS, OUTCOME, POSITION, VALUE
from analysis.value_accuracy.style import Row, at_last, by_name, legend_below, shown, styles, title

# (axis of the strata, statistic, label of x, label of y)
PANELS = (
    (POSITION, "mae", "position in the response (%)", "mean absolute error"),
    (POSITION, "bias", "position in the response (%)", "bias (prediction − truth)"),
    (OUTCOME, "bias", "final answer of the state's rollout", "bias (prediction − truth)"),
    (VALUE, "bias", "true value of the state", "bias (prediction − truth)"),
)
SPREAD = 0.6  # of the markers of one category, whose distance is 1


def draw_strata(rows: Sequence[Row], path: Path) -> list[Path]:
    """A row of panels a method at one checkpoint of each; returns what it wrote."""
    methods = {name: at_last(of) for name, of in by_name(shown(rows)).items()}
    looks = styles([row["predictor"] for of in methods.values() for row in of])
    with figures.panels(len(methods), len(PANELS)) as (figure, axes):
        for index, of_method in enumerate(methods.values()):
            of_row = axes[len(PANELS) * index : len(PANELS) * (index + 1)]
            of_row[0].set_title(title(of_method), loc="left")
            for axis, (kind, statistic, x, y) in zip(of_row, PANELS, strict=True):
                of_kind = [row for row in of_method if row["axis"] == kind]
                draw_strata_panel(axis, of_kind, statistic, looks, is_line=kind == POSITION)
                axis.set_xlabel(x)
                axis.set_ylabel(y)
                if statistic == "mae":
                    axis.set_ylim(bottom=0)
                else:
                    axis.axhline(0, color="0.5", linewidth=0.6, zorder=0)
        for predictor, look in looks.items():
            axes[0].plot([], [], label=label(predictor), **look)
        legend_below(figure, axes[0])
        return figures.save(figure, path)


def draw_strata_panel(
    axis: Axes,
    rows: Sequence[Row],
    statistic: str,
    looks: Mapping[str, Mapping[str, Any]],
    *,
    is_line: bool,
) -> None:
    """Strata from left to right, the predictors side by side in each, with their intervals."""
    names = {row["stratum_index"]: row["stratum"] for row in rows}
    predictors = [name for name in looks if name in {row["predictor"] for row in rows}]
    shifts = SPREAD * (np.arange(len(predictors)) - (len(predictors) - 1) / 2) / len(predictors)
    for shift, predictor in zip(shifts, predictors, strict=True):
        known = [r for r in rows if r["predictor"] == predictor and r[statistic] is not None]
        xs = [row["stratum_index"] + shift for row in known]
        look = dict(looks[predictor]) | ({} if is_line else {"linestyle": ""})
        axis.plot(xs, [row[statistic] for row in known], **look)
        bounded = [
            (x, row[f"{statistic}_low"], row[f"{statistic}_high"])
            for x, row in zip(xs, known, strict=True)
            if row[f"{statistic}_low"] is not None
        ]
        if bounded:
            axis.vlines(*zip(*bounded, strict=True), color=look["color"], linewidth=0.7)
    if is_line:
        edges = range(NUM_POSITIONS + 1)
        percent = [f"{100 * edge // NUM_POSITIONS}" for edge in edges]
        axis.set_xticks([edge - 0.5 for edge in edges], percent)
        axis.set_xlim(-0.5, NUM_POSITIONS - 0.5)
    else:
        axis.set_xticks(list(names), list(names.values()))
        if len(names) > 2:
            for text in axis.get_xticklabels():
                text.set(rotation=35, ha="right", rotation_mode="anchor")
        axis.set_xlim(min(names) - 0.5, max(names) + 0.5)
