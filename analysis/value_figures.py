"""The figures of `value-accuracy`, drawn from its tables."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm, to_hex

from analysis import figures
from analysis.value_states import BOUNDARIES, CRITIC, FREE, MC_TRAIN, STRATA, num_draws, order

# The kinds of rows in value_accuracy_reliability.csv.
CURVE, EXACT, BIN = "curve", "exact", "bin"
# Values of a method have its colour; what the rewards give away, and a constant, come last.
_METHODS = {"posterior": "martingale", "privileged": "privileged", "probe": "probe"}
_METHODS |= {"oracle": "oracle", CRITIC: "ppo"}
_COLORS = {name: figures.method_styles([own])[own]["color"] for name, own in _METHODS.items()}
_COLORS |= dict(zip(FREE, (*figures.COLORS[2:4], "0.75"), strict=True))
_FURTHER = (figures.COLORS[4], *figures.COLORS[6:], *figures.MORE_COLORS)  # of all other predictors
LIGHTEST, DARKEST = 0.45, 1.0  # of the blues of MC, the darker the more draws
# metric: (that of a K-sample mean, name of the axis)
OVERVIEW = {
    "mae": ("mae_floor", "mean absolute error"),
    "pearson": ("pearson_ceiling", "correlation, all states"),
    "pearson_within": ("pearson_within_ceiling", "correlation within problems"),
}
LIMIT: dict[str, Any] = {"marker": "_", "linestyle": "", "color": "0.3", "label": "K-sample mean"}
# (kind of the strata, metric, label of x, label of y)
OF_STRATA = (
    ("position", "mae", "position in the response (%)", "mean absolute error"),
    ("position", "bias", "position in the response (%)", "bias (prediction − truth)"),
    ("outcome", "bias", "final answer of the state's rollout", "bias (prediction − truth)"),
    ("value", "bias", "true value of the state", "bias (prediction − truth)"),
)
BANDS = {
    EXACT: ("0.55", 0.35, "if every prediction were exact (consistency band)"),
    CURVE: (figures.COLORS[0], 0.25, "over problems drawn anew (confidence band)"),
}
SPREAD = 0.6  # of the markers of one place, whose distance is 1
MAX_COLUMNS = 4
CELL = 1 / 20  # side of a cell of the histograms; 0, ½ and 1 are middles of cells
BEYOND = 0.5  # how far below 0 and above 1 predictions are shown; those beyond stand at the edge
LARGEST_DOT = 60.0  # area in points², of a bin that holds every state

Styles = Mapping[str, dict[str, Any]]


def styles(predictors: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes by predictor, in their order.

    Monte-Carlo estimates are blue, darker with more draws; those of the training are dashed and
    hollow beside the fresh ones of as many draws.
    """
    names = sorted(set(predictors), key=order)
    all_draws = sorted({num for name in names if (num := num_draws(name)) is not None})
    further = [name for name in names if name not in _COLORS and num_draws(name) is None]
    shapes = list(dict.fromkeys(num_draws(name) or name for name in names))
    by_predictor = {}
    for name in names:
        num, is_trained = num_draws(name), name.startswith(MC_TRAIN)
        if num is not None:
            share = all_draws.index(num) / max(len(all_draws) - 1, 1)
            color = to_hex(mpl.colormaps["Blues"](LIGHTEST + (DARKEST - LIGHTEST) * share))
        elif name in further:
            color = _FURTHER[further.index(name) % len(_FURTHER)]
        else:
            color = _COLORS[name]
        by_predictor[name] = {
            "color": color,
            "marker": figures.marker(shapes.index(num or name)),
            "linestyle": "--" if is_trained and num else "-",
            "markerfacecolor": "white" if is_trained and num else color,
        }
    return by_predictor


def draw_overview(scores: pd.DataFrame, path: Path) -> list[Path]:
    """Errors and correlations along the checkpoints."""

    rows = shown(scores[scores["stratum"] == BOUNDARIES])
    metrics = [metric for metric in OVERVIEW if metric in set(rows["metric"])]

    def draw(axes: Sequence[Axes], of_method: pd.DataFrame, looks: Styles) -> None:
        checkpoints = sorted(of_method["checkpoint"].unique())
        for axis, metric in zip(axes, metrics, strict=False):
            limit, text = OVERVIEW[metric]
            draw_panel(axis, of_method, "checkpoint", checkpoints, metric, looks, limit)
            axis.set(xlabel="iteration of the policy", ylabel=text)
            axis.set_xticks(range(len(checkpoints)), list(map(str, checkpoints)))
        axes[0].set_ylim(bottom=0)
        axes[0].plot([], [], **LIMIT)

    return draw_methods(rows, path, len(metrics), draw)


def draw_strata(scores: pd.DataFrame, path: Path) -> list[Path]:
    """Where the errors are, at one checkpoint of each method."""

    def draw(axes: Sequence[Axes], of_method: pd.DataFrame, looks: Styles) -> None:
        for axis, (kind, metric, x, y) in zip(axes, OF_STRATA, strict=False):
            draw_kind(axis, of_method, kind, metric, looks)
            axis.set(xlabel=x, ylabel=y)

    return draw_methods(at_last(shown(scores)), path, len(OF_STRATA), draw)


def draw_methods(
    rows: pd.DataFrame,
    path: Path,
    num_panels: int,
    draw: Callable[[Sequence[Axes], pd.DataFrame, Styles], None],
) -> list[Path]:
    """A row of panels a method, over a legend of the predictors; returns what it wrote."""
    looks = styles(rows["predictor"])
    methods = list(rows.groupby("method", sort=False))
    with figures.panels(len(methods), num_panels) as (figure, axes):
        for index, (_, of_method) in enumerate(methods):
            of_row = axes[num_panels * index :]
            of_row[0].set_title(title(of_method), loc="left")
            draw(of_row, of_method, looks)
        for predictor, look in looks.items():
            axes[0].plot([], [], label=figures.predictor_label(predictor), **look)
        figures.legend_below(figure, axes[0])
        return figures.save(figure, path)


def draw_kind(axis: Axes, rows: pd.DataFrame, kind: str, metric: str, looks: Styles) -> None:
    """A metric by one kind of strata."""
    strata = [f"{kind} {name}" for name in STRATA[kind]]
    if kind == "position":
        edges = np.arange(len(strata) + 1)
        axis.set_xticks(edges - 0.5, [f"{100 * edge // len(strata)}" for edge in edges])
    else:
        looks = {name: look | {"linestyle": ""} for name, look in looks.items()}
        axis.set_xticks(range(len(strata)), STRATA[kind])
    if kind == "value":
        for text in axis.get_xticklabels():
            text.set(rotation=35, ha="right", rotation_mode="anchor")
    draw_panel(axis, rows, "stratum", strata, metric, looks)
    if metric == "mae":
        axis.set_ylim(bottom=0)
    else:
        axis.axhline(0, color="0.5", linewidth=0.6, zorder=0)


def draw_panel(
    axis: Axes,
    rows: pd.DataFrame,
    column: str,
    places: Sequence[Any],
    metric: str,
    looks: Styles,
    limit: str = "",
) -> None:
    """A metric by the `places` that a column holds, the predictors side by side at each.

    `limit` is a metric that ticks mark, of Monte-Carlo estimates.
    """
    here = rows[rows[column].isin(places)]
    here = here.assign(place=here[column].map({place: x for x, place in enumerate(places)}))
    predictors = [name for name in looks if name in set(here["predictor"])]
    shifts = SPREAD * (np.arange(len(predictors)) - (len(predictors) - 1) / 2) / len(predictors)
    for shift, predictor in zip(shifts, predictors, strict=True):
        points_of = here[here["predictor"] == predictor].sort_values("place")
        points, look = points_of[points_of["metric"] == metric], looks[predictor]
        figures.curve(axis, points, "place", "value", look, shift=shift, ends="bars")
        if num_draws(predictor) is not None:
            ticks = points_of[points_of["metric"] == limit]
            look = LIMIT | {"label": ""}
            figures.curve(axis, ticks, "place", "value", look, shift=shift, ends="")
    axis.set_xlim(-0.5, len(places) - 0.5)


def draw_scatter(states: pd.DataFrame, path: Path) -> list[Path]:
    """2D histograms of predictions and truths at one checkpoint, a file a method."""
    is_own = states["rollout_iteration"] == states["checkpoint"] + 1
    rows = at_last(states[states["position"] > 0].assign(is_own_policy=is_own))
    written = []
    for method, of_method in rows.groupby("method", sort=False):
        names = sorted(of_method["predictor"].unique(), key=order)
        seeds = " ".join(map(str, sorted(of_method["seed"].unique())))
        with figures.grid(len(names), MAX_COLUMNS) as (figure, axes):
            drawn = [
                histogram(axis, of_method[of_method["predictor"] == name])
                for axis, name in zip(axes, names, strict=True)
            ]
            for mesh, _ in drawn:
                mesh.set_norm(LogNorm(1, max(2, *(most for _, most in drawn))))
            figure.suptitle(title(of_method.assign(seeds=seeds)), fontsize=8)
            name_panels(axes, names, "true value (measured)")
            bar = figure.colorbar(drawn[0][0], ax=axes, shrink=0.6, aspect=30, format="%g")
            bar.set_label("number of states")
            written += figures.save(figure, method_path(path, str(method)))
    return written


def histogram(axis: Axes, states: pd.DataFrame) -> tuple[QuadMesh, float]:
    """The mesh, and how many states its fullest cell holds."""
    values_N = np.clip(states["prediction"], -BEYOND, 1 + BEYOND)
    below, above = min(values_N.min(), 0.0), max(values_N.max(), 1.0)
    xs = CELL * (np.arange(np.floor(below / CELL), np.ceil(above / CELL) + 2) - 0.5)
    ys = CELL * (np.arange(round(1 / CELL) + 2) - 0.5)
    truths_N = states["num_correct"] / states["num_samples"]
    counts, _, _ = np.histogram2d(values_N, truths_N, (xs, ys))
    filled = np.ma.masked_equal(counts.T, 0)
    mesh = axis.pcolormesh(xs, ys, filled, cmap="viridis_r", rasterized=True)
    axis.plot([0, 1], [0, 1], color="0.3", linewidth=0.6)
    return mesh, float(counts.max())


def draw_reliability(reliability: pd.DataFrame, path: Path) -> list[Path]:
    """CORP curves and bins at one checkpoint, with their bands, a file a method."""
    written = []
    for method, of_method in at_last(reliability).groupby("method", sort=False):
        names = sorted(of_method["predictor"].unique(), key=order)
        with figures.grid(len(names), MAX_COLUMNS) as (figure, axes):
            for axis, name in zip(axes, names, strict=True):
                draw_curve(axis, of_method[of_method["predictor"] == name])
            figure.suptitle(title(of_method), fontsize=8)
            name_panels(axes, names, "mean true value")
            figures.legend_below(figure, axes[0])
            written += figures.save(figure, method_path(path, str(method)))
    return written


def draw_curve(axis: Axes, rows: pd.DataFrame) -> None:
    """The reliability diagram of one predictor."""
    for kind, (color, alpha, text) in BANDS.items():
        shown = rows[rows["kind"] == kind]
        ends = shown["prediction"], shown["truth_low"], shown["truth_high"]
        axis.fill_between(*ends, color=color, alpha=alpha, linewidth=0, label=text)
        if len(shown) == 1:  # a constant, of which a band would not be seen
            axis.vlines(*ends, color=color, alpha=alpha, linewidth=4)
    axis.plot([0, 1], [0, 1], color="0.3", linewidth=0.6)
    curve, bins = rows[rows["kind"] == CURVE], rows[rows["kind"] == BIN]
    axis.plot(
        curve["prediction"], curve["truth"], color=figures.COLORS[0], label="isotonic fit (CORP)"
    )
    shares = bins["num_states"].astype(float) / bins["num_states"].sum()
    axis.scatter(
        bins["prediction"],
        bins["truth"],
        LARGEST_DOT * shares,
        facecolors="none",
        edgecolors="black",
        linewidths=0.6,
        label="tenths, area by number of states",
        zorder=3,
    )
    axis.set_xlim(-0.02, 1.02)


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all seeds of a method together, which leave no seed out."""
    count = rows["seeds"].str.split().str.len()
    most = count.groupby([rows["method"], rows["checkpoint"], rows["predictor"]]).transform("max")
    return rows[count == most]


def at_last(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each method one checkpoint: the last whose policy sampled the rollouts, or the last."""
    own = rows["checkpoint"].where(rows["is_own_policy"].astype(bool))
    last = rows["checkpoint"].groupby(rows["method"]).transform("max")
    return rows[rows["checkpoint"] == own.groupby(rows["method"]).transform("max").fillna(last)]


def title(rows: pd.DataFrame) -> str:
    """ "PPO, 3 seeds, checkpoint 4" of the rows of a method."""
    seeds = max(rows["seeds"].unique(), key=lambda seeds: len(seeds.split()))
    count = len(seeds.split())
    (name,) = figures.method_labels(list(rows["method"].unique())).values()
    checkpoints = rows["checkpoint"].unique()
    at = f", checkpoint {checkpoints[0]}" if len(checkpoints) == 1 else ""
    return f"{name}, {f'{count} seeds' if count > 1 else f'seed {seeds}'}{at}"


def name_panels(axes: Sequence[Axes], predictors: Sequence[str], y: str) -> None:
    for axis, predictor in zip(axes, predictors, strict=True):
        name = figures.predictor_label(predictor)
        axis.set(title=name, ylim=(-0.03, 1.03), xlabel="prediction")
    figures.label_rows(axes, y)


def method_path(path: Path, method: str) -> Path:
    """A run may have any name; a file may not."""
    return path.with_name(f"{path.name}_{re.sub(r'[^A-Za-z0-9._-]+', '_', method)}")
