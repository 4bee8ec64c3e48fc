"""How predictors look, and which rows of the tables a figure shows."""

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import figures
from analysis.value_accuracy.cells import ALL_SEEDS
from analysis.value_accuracy.predictors import MC_TRAIN, order, split_name

_COLORS = {
    "critic": figures.COLORS[1],
    "group_mean": figures.COLORS[2],
    "group_mean_others": figures.COLORS[3],
    "constant": "0.45",
}
LIGHTEST, DARKEST = 0.45, 1.0  # of the blues of MC, the darker the more draws
Row = dict[str, Any]


def styles(predictors: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes by predictor, in their order.

    Monte-Carlo estimates are blue, darker with more draws; those of the training are dashed and
    hollow beside the fresh ones of as many draws.
    """
    names = sorted(set(predictors), key=order)
    all_draws = sorted({num for name in names if (num := split_name(name)[1]) is not None})
    shapes: list[str | int] = []
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        kind, num_draws = split_name(name)
        shape = num_draws or kind
        shapes += [] if shape in shapes else [shape]
        if num_draws is None:
            color, line = _COLORS.get(kind, figures.COLORS[len(found) % len(figures.COLORS)]), "-"
        else:
            share = all_draws.index(num_draws) / max(len(all_draws) - 1, 1)
            rgba = mpl.colormaps["Blues"](DARKEST - (DARKEST - LIGHTEST) * (1 - share))
            color, line = mpl.colors.to_hex(rgba), "--" if kind == MC_TRAIN else "-"
        found[name] = {
            "color": color,
            "marker": figures.marker(shapes.index(shape)),
            "linestyle": line,
            "markerfacecolor": "white" if kind == MC_TRAIN else color,
        }
    return found


def shown(rows: Sequence[Row]) -> list[Row]:
    """The rows of all seeds together, and of the only seed where there is but one."""
    pooled = {_place(row) for row in rows if row["seed"] == ALL_SEEDS}
    return [row for row in rows if row["seed"] == ALL_SEEDS or _place(row) not in pooled]


def by_name(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each run name, in order of first sight."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row)
    return found


def at_last(rows: Sequence[Row]) -> list[Row]:
    """The rows of one checkpoint of a name: the last whose policy sampled the rollouts, or last."""
    own = [row["checkpoint"] for row in rows if row["is_own_policy"]]
    last = max(own or [row["checkpoint"] for row in rows])
    return [row for row in rows if row["checkpoint"] == last]


def title(rows: Sequence[Row]) -> str:
    """`long_ppo, 3 seeds, checkpoint 4`."""
    num_seeds = max(row["num_seeds"] for row in rows)
    seeds = f"{num_seeds} seeds" if num_seeds > 1 else f"seed {rows[0]['seed']}"
    checkpoints = sorted({row["checkpoint"] for row in rows})
    at = f", checkpoint {checkpoints[0]}" if len(checkpoints) == 1 else ""
    return f"{rows[0]['name']}, {seeds}{at}"


def legend_below(figure: Figure, axis: Axes) -> None:
    """`figures.shared_legend` in a figure that grows by as much as it takes."""
    figures.shared_legend(figure, axis)
    width, height = figure.get_size_inches()
    extent = figure.legends[0].get_window_extent()
    figure.set_size_inches(width, height + extent.height / figure.dpi)


def _place(row: Row) -> tuple[Any, ...]:
    """What all seeds share of a row of any of the tables."""
    names = "name", "checkpoint", "predictor"
    return tuple(row[name] for name in names)
