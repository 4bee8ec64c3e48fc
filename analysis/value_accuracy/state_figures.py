"""State by state: predictions against truths, and reliability diagrams, a file a method."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from analysis import figures
from analysis.value_accuracy.cells import Cell
from analysis.value_accuracy.predictors import label, order
from analysis.value_accuracy.reliability import BIN, CURVE
from analysis.value_accuracy.states import BOUNDARY
from analysis.value_accuracy.style import Row, at_last, by_name, legend_below, shown, title

MAX_COLUMNS = 4
CELL = 1 / 20  # side of a cell of the histograms; 0, ½ and 1 are middles of cells
BEYOND = 0.5  # how far below 0 and above 1 predictions are shown; those beyond stand at the edge
LARGEST_DOT = 60.0  # area in points², of a bin that holds every state


def draw_scatter(cells: Sequence[Cell], path: Path) -> list[Path]:
    """2D histograms of predictions and truths at one checkpoint; returns what it wrote."""
    rows = [cell.columns() | {"cell": cell} for cell in cells if cell.group == BOUNDARY]
    written = []
    for name, of_name in by_name(shown(rows)).items():
        chosen = at_last(of_name)
        with figures.panels(*_grid(len(chosen))) as (figure, axes):
            meshes = [
                _histogram(axis, row["cell"]) for axis, row in zip(axes, chosen, strict=False)
            ]
            most = max(most for _, most in meshes)
            for mesh, _ in meshes:
                mesh.set_norm(LogNorm(1, max(most, 2)))
            _finish(figure, axes, chosen, "prediction", "true value (measured)")
            bar = figure.colorbar(meshes[0][0], ax=axes, shrink=0.6, aspect=30, format="%g")
            bar.set_label("number of states")
            written += figures.save(figure, _file(path, name))
    return written


def draw_reliability(rows: Sequence[Row], path: Path) -> list[Path]:
    """CORP curves and bins at one checkpoint, with their bands; returns what it wrote."""
    written = []
    for name, of_name in by_name(shown(rows)).items():
        chosen = at_last(of_name)
        first_of = {row["predictor"]: row for row in reversed(chosen)}
        predictors = sorted(first_of, key=order)
        with figures.panels(*_grid(len(predictors))) as (figure, axes):
            for axis, predictor in zip(axes, predictors, strict=False):
                _reliability(axis, [row for row in chosen if row["predictor"] == predictor])
            firsts = [first_of[predictor] for predictor in predictors]
            _finish(figure, axes, firsts, "prediction", "mean true value")
            legend_below(figure, axes[0])
            written += figures.save(figure, _file(path, name))
    return written


def _histogram(axis: Axes, cell: Cell) -> tuple[QuadMesh, float]:
    values_N = np.clip(cell.values_N, -BEYOND, 1 + BEYOND)
    below, above = min(values_N.min(), 0.0), max(values_N.max(), 1.0)
    xs = CELL * (np.arange(np.floor(below / CELL), np.ceil(above / CELL) + 2) - 0.5)
    ys = CELL * (np.arange(round(1 / CELL) + 2) - 0.5)
    counts, _, _ = np.histogram2d(values_N, cell.truths, (xs, ys))
    filled = np.ma.masked_equal(counts.T, 0)
    mesh = axis.pcolormesh(xs, ys, filled, cmap="viridis_r", rasterized=True)
    axis.plot([0, 1], [0, 1], color="0.3", linewidth=0.6)
    return mesh, float(counts.max())


def _reliability(axis: Axes, rows: Sequence[Row]) -> None:
    curve = [row for row in rows if row["kind"] == CURVE]
    bins = [row for row in rows if row["kind"] == BIN]
    xs, color = [row["prediction"] for row in curve], figures.COLORS[0]
    for band, shade, alpha, name in (
        ("consistency", "0.55", 0.35, "if every prediction were exact (consistency band)"),
        ("confidence", color, 0.25, "over problems drawn anew (confidence band)"),
    ):
        low, high = ([row[f"{band}_{side}"] for row in curve] for side in ("low", "high"))
        axis.fill_between(xs, low, high, color=shade, alpha=alpha, linewidth=0, label=name)
        if len(xs) == 1:  # a constant, of which a band would not be seen
            axis.vlines(xs, low, high, color=shade, alpha=alpha, linewidth=4)
    axis.plot([0, 1], [0, 1], color="0.3", linewidth=0.6)
    axis.plot(xs, [row["truth"] for row in curve], color=color, label="isotonic fit (CORP)")
    total = sum(row["num_states"] for row in bins)
    axis.scatter(
        [row["prediction"] for row in bins],
        [row["truth"] for row in bins],
        [LARGEST_DOT * row["num_states"] / total for row in bins],
        facecolors="none",
        edgecolors="black",
        linewidths=0.6,
        label="tenths, area by number of states",
        zorder=3,
    )
    axis.set_xlim(-0.02, 1.02)


def _finish(figure: Figure, axes: list[Axes], rows: Sequence[Row], x: str, y: str) -> None:
    """Titles and labels; takes away the panels that no predictor needs."""
    figure.suptitle(title(rows), fontsize=8)
    for axis, row in zip(axes, rows, strict=False):
        axis.set_title(label(row["predictor"]))
        axis.set_ylim(-0.03, 1.03)
        axis.set_xlabel(x)
    _, num_columns = _grid(len(rows))
    for axis in axes[: len(rows) : num_columns]:
        axis.set_ylabel(y)
    for axis in axes[len(rows) :]:
        axis.remove()
    del axes[len(rows) :]


def _grid(num_panels: int) -> tuple[int, int]:
    num_columns = min(num_panels, MAX_COLUMNS)
    return -(-num_panels // num_columns), num_columns


def _file(path: Path, name: str) -> Path:
    """A run may have any name; a file may not."""
    return path.with_name(f"{path.name}_{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}")
