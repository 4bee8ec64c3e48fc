"""`diversity`: how far training moved the weights, and how alike the policy's answers became.

Of the starting policy and the last of every run, on the same test problems, sampled as in training.
The distance is ‖θ − θ_0‖ / ‖θ_0‖ over all weights. The diversity is that of the tree of a problem's
responses, nodes of their trie of tokens over their tokens: 1 where no two begin alike, 1/N where
all N are one.
"""

import argparse
from pathlib import Path

import pandas as pd
from matplotlib.ticker import MaxNLocator

from analysis import figures, frames, options
from analysis.frames import OF_RUN
from analysis.stats.bootstrap import Estimate
from analysis.tables import Table
from vineppo.errors import UserError

# Intervals over problems. `distinct` is the share of a problem's responses that differ.
DIVERSITY = Table(
    "diversity.csv",
    OF_RUN
    | {"iteration": int, "distance": float}
    | dict.fromkeys(["diversity", "distinct", "pass@1"], Estimate)
    | {"num_problems": int, "samples_per_problem": int},
)
PANELS = ("pass@1", "diversity")
START = "start"


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_numbers(
        parser,
        num_problems=(64, "of the test problems"),
        num_samples=(8, "responses of a problem"),
        seed=(0, "which problems, which responses"),
    )


def run(paths: list[Path], out: Path, **settings: int) -> list[Path]:
    """Writes diversity.csv, .png and .svg; returns their paths.

    Each path is a run directory, or one directory whose diversity.csv is drawn again.
    """
    options.check_least(settings, num_problems=1, num_samples=2)
    if len(paths) > 1 and any(map(DIVERSITY.holds, paths)):
        raise UserError("diversity takes run directories, or one directory with their table")
    if DIVERSITY.holds(paths[0]):
        rows = DIVERSITY.read(paths[0])
    else:
        from analysis.sampling.diversity import sampled_rows

        rows = DIVERSITY.frame(sampled_rows([frames.read_run(path) for path in paths], settings))
    return [*draw(rows, out / "diversity"), *DIVERSITY.write(out, rows)]


def draw(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A dot a run, by the distance; a method's mean is larger. Dotted: the starting policy."""
    trained = rows[rows["method"] != START]
    methods = list(trained["method"].unique())
    styles, labels = figures.method_styles(methods), figures.method_labels(methods)
    with figures.grid(len(PANELS), 2) as (figure, axes):
        for axis, column in zip(axes, PANELS, strict=True):
            axis.axhline(
                rows.loc[rows["method"] == START, column].iloc[0],
                color="0.6", linestyle=":", linewidth=0.8, label="starting policy",
            )  # fmt: skip
            for method in methods:
                own = trained[trained["method"] == method]
                style = styles[method] | {"linestyle": ""}
                axis.plot(own["distance"], own[column], **style, alpha=0.4)
                means = own[["distance", column]].mean()
                axis.plot(*means, **style | {"markersize": 7}, label=labels[method])
            axis.set(xlabel="‖θ − θ₀‖ / ‖θ₀‖", ylabel=column)
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(4))
        figures.legend_below(figure, axes[0])
        return figures.save(figure, path)
