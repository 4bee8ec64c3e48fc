"""The figures of `value-accuracy`, drawn from its tables."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm

from analysis import figures
from analysis.value_states import BOUNDARIES, CRITIC, FREE, MC_TRAIN, STRATA, num_draws, order

# Values of a method have its colour; what the rewards give away, and a constant, come last.
_METHODS = {"posterior": "martingale", "privileged": "martingale, answer in view"}
_METHODS |= {"probe": "probe, corrected", "oracle": "lagging count of skills", CRITIC: "PPO"}
_METHODS |= {"group_mean": "GRPO", "group_mean_others": "RLOO"}
_COLORS = {name: figures.METHOD_COLORS[method] for name, method in _METHODS.items()}
_COLORS |= {"constant": "0.75"}
LIMIT: dict[str, Any] = {"marker": "_", "linestyle": "", "color": "0.3", "label": "K-sample mean"}
SPREAD = 0.6  # of the markers of one place, whose distance is 1
MAX_COLUMNS = 3
CELL = 1 / 20  # side of a cell of the histograms; 0, ½ and 1 are middles of cells
BEYOND = 0.5  # how far below 0 and above 1 predictions are shown; those beyond stand at the edge
Styles = Mapping[str, dict[str, Any]]


def styles(predictors: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes by predictor, in their order.

    Monte-Carlo estimates have the blue of VinePPO with as many continuations. Training's estimates
    are dashed and hollow; fresh ones are not.
    """
    names = sorted(set(predictors), key=order)
    further = [name for name in names if name not in _COLORS and num_draws(name) is None]
    shapes = list(dict.fromkeys(num_draws(name) or name for name in names))
    by_predictor = {}
    for name in names:
        num, is_trained = num_draws(name), name.startswith(MC_TRAIN)
        if num is not None:
            color = figures.shaded(figures.METHOD_COLORS["VinePPO"], f"K = {num}")
        elif name in further:
            color = figures.OTHER_COLORS[further.index(name) % len(figures.OTHER_COLORS)]
        else:
            color = _COLORS[name]
        by_predictor[name] = {
            "color": color,
            "marker": figures.marker(shapes.index(num or name)),
            "linestyle": "--" if is_trained and num else "-",
            "markerfacecolor": "white" if is_trained and num else color,
        }
    return by_predictor


def most_telling(predictors: Sequence[str]) -> list[str]:
    """At most `MAX_SERIES` of the predictors, in their order.

    What tells least goes first: a constant, the group mean that holds the own reward, the returns
    of the training.
    """
    names = sorted(set(predictors), key=order)
    least = ["constant", FREE[0], *reversed([n for n in names if n.startswith(MC_TRAIN)])]
    left_out = [name for name in [*least, *reversed(names)] if name in names]
    return [
        name for name in names if name not in left_out[: max(len(names) - figures.MAX_SERIES, 0)]
    ]


def draw_overview(scores: pd.DataFrame, path: Path) -> list[Path]:
    """Four panels a method: errors and correlation by checkpoint, errors by place and value."""
    rows = shown(scores)
    methods = [
        of_method[of_method["predictor"].isin(most_telling(of_method["predictor"]))]
        for _, of_method in rows.groupby("method", sort=False)
    ]
    looks = styles([name for of_method in methods for name in of_method["predictor"].unique()])
    with figures.panels(2 * len(methods), 2) as (figure, axes):
        for index, of_method in enumerate(methods):
            of_row = axes[4 * index : 4 * (index + 1)]
            of_row[0].set_title(title(of_method), loc="left")
            boundaries = of_method[of_method["stratum"] == BOUNDARIES]
            checkpoints = sorted(boundaries["checkpoint"].unique())
            for axis, metric, limit, text in (
                (of_row[0], "mae", "mae_floor", "mean absolute error"),
                (of_row[1], "pearson_within", "", "correlation within problems"),
            ):
                draw_panel(axis, boundaries, "checkpoint", checkpoints, metric, looks, limit)
                axis.set(xlabel="iteration of the policy", ylabel=text)
                axis.set_xticks(range(len(checkpoints)), list(map(str, checkpoints)))
            of_row[0].set_ylim(bottom=0)
            last = at_last(of_method)
            draw_kind(of_row[2], last, "position", "mae", looks)
            of_row[2].set(xlabel="position in the response (%)", ylabel="mean absolute error")
            draw_kind(of_row[3], last, "value", "bias", looks)
            of_row[3].set(xlabel="true value of the state", ylabel="bias (prediction − truth)")
        axes[0].plot([], [], **LIMIT)
        for predictor, look in looks.items():
            axes[0].plot([], [], label=figures.predictor_label(predictor), **look)
        figures.shared_legend(figure, axes[0])
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
        names = most_telling(of_method["predictor"])
        seeds = " ".join(map(str, sorted(of_method["seed"].unique())))
        with figures.grid(len(names), MAX_COLUMNS) as (figure, axes):
            drawn = [
                histogram(axis, of_method[of_method["predictor"] == name])
                for axis, name in zip(axes, names, strict=True)
            ]
            for mesh, _ in drawn:
                mesh.set_norm(LogNorm(1, max(2, *(most for _, most in drawn))))
            figure.suptitle(title(of_method.assign(seeds=seeds)), fontsize=8)
            for axis, name in zip(axes, names, strict=True):
                label = figures.predictor_label(name)
                axis.set(title=label, ylim=(-0.03, 1.03), xlabel="prediction")
            figures.label_rows(axes, "true value (measured)")
            bar = figure.colorbar(drawn[0][0], ax=axes, shrink=0.6, aspect=30, format="%g")
            bar.set_label("number of states")
            # A run may have any name; a file may not.
            file_name = re.sub(r"[^A-Za-z0-9._-]+", "_", str(method))
            written += figures.save(figure, path.with_name(f"{path.name}_{file_name}"))
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


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all seeds of a method together, which leave no seed out."""
    count = rows["seeds"].str.split().str.len()
    most = count.groupby([rows["method"], rows["checkpoint"], rows["predictor"]]).transform("max")
    return rows[count == most]


def at_last(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one checkpoint a method: the last that sampled its rollouts, or the last."""
    sampled = rows["checkpoint"].where(rows["is_own_policy"].astype(bool))
    last = [of.groupby(rows["method"]).transform("max") for of in (sampled, rows["checkpoint"])]
    return rows[rows["checkpoint"] == last[0].fillna(last[1])]


def title(rows: pd.DataFrame) -> str:
    """ "PPO, 3 seeds, checkpoint 4" of the rows of a method."""
    seeds = max(rows["seeds"].unique(), key=lambda seeds: len(seeds.split()))
    count = len(seeds.split())
    (name,) = figures.method_labels(list(rows["method"].unique())).values()
    checkpoints = rows["checkpoint"].unique()
    at = f", checkpoint {checkpoints[0]}" if len(checkpoints) == 1 else ""
    return f"{name}, {f'{count} seeds' if count > 1 else f'seed {seeds}'}{at}"
