"""Figures of what the runs logged, as images that the page carries within itself."""

import base64
import re
from html import escape

import pandas as pd
from matplotlib.figure import Figure

from analysis import figures
from analysis.costs import points_of
from analysis.frames import Run
from analysis.learning_curves import SCORE, draw_panel
from analysis.training_curves import draw_metric, draw_time_shares, shown_metrics

LEGEND_WIDTH_IN = 1.0
NUM_COLUMNS = 3
# Of the page to an inch of a figure: its 8 pt text is then about as large as the page's.
PIXELS_PER_IN = 105
_POINTS_PER_IN = 72
_WIDTH_PT = re.compile(rb'<svg[^>]*?\bwidth="([0-9.]+)pt"')


def accuracy_image(names: list[str], curves: list[pd.DataFrame]) -> str:
    """Single runs with their bands over problems, a panel a cost."""
    with figures.panels(1, NUM_COLUMNS) as (figure, axes):
        for axis, cost in zip(axes, ("iteration", "elapsed_s", "tokens_sampled"), strict=True):
            of_cost = {
                name: points_of(curve, cost) for name, curve in zip(names, curves, strict=True)
            }
            draw_panel(axis, cost, of_cost, {name: name for name in names})
        axes[0].set_ylabel(SCORE)
        figures.shared_legend(figure, *axes)
        return _image(figure, "pass@1 by iteration, training time and sampled tokens")


def metrics_image(runs: list[Run], names: list[str]) -> str:
    metrics = shown_metrics(runs)
    num_rows = -(-len(metrics) // NUM_COLUMNS)
    with figures.panels(num_rows, NUM_COLUMNS) as (figure, axes):
        for unused in axes[len(metrics) :]:
            unused.set_visible(False)
        for axis, (metric, label) in zip(axes[: len(metrics)], metrics, strict=True):
            draw_metric(axis, runs, names, metric, label)
        figures.shared_legend(figure, axes[0])
        return _image(figure, f"{', '.join(label for _, label in metrics)} by iteration")


def times_image(runs: list[Run], names: list[str]) -> str:
    num_columns = min(len(runs), NUM_COLUMNS)
    num_rows = -(-len(runs) // num_columns)
    with figures.panels(num_rows, num_columns, LEGEND_WIDTH_IN) as (figure, axes):
        for unused in axes[len(runs) :]:
            unused.set_visible(False)
        draw_time_shares(figure, axes[: len(runs)], runs, names)
        return _image(figure, "share of each phase in an iteration's time")


def svg_image(svg: bytes, description: str) -> str:
    """An SVG file as an image, in which no script of it runs, in the size of its figure."""
    found = _WIDTH_PT.search(svg)
    width = ""
    if found:
        width = f' width="{PIXELS_PER_IN * float(found[1]) / _POINTS_PER_IN:.0f}"'
    uri = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    return f'<img alt="{escape(description)}"{width} src="{uri}">'


def _image(figure: Figure, description: str) -> str:
    return svg_image(figures.render(figure, "svg"), description)
