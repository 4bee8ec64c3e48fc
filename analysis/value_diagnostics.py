"""`value-diagnostics`: what a critic believes along the response, and how much of it is true."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import figures
from analysis.frames import choose_iterations, existing_run_dir, read_config
from analysis.tables import Table
from vineppo.errors import UserError
from vineppo.run_dir.tables import read_parquet

DIAGNOSTICS = "value_diagnostics"
NUMBERS = ["values", "returns", "advantages"]  # of each token of a bin, in a critic run's tables
NUM_BINS = 20  # of the axis "percentile"
LINE_OF_GROUP = {"correct": "-", "incorrect": "--"}
ALL = "all"
PANELS = {
    "value_mean": "mean value",
    "advantage_mean": "mean advantage",
    "explained_variance": "explained variance",
}
PLACES = ("first", "middle", "last")  # of the iterations shown; runs may differ in their numbers
# The tokens of a bin, of all responses or of the correct or the incorrect ones. The means of no
# tokens are empty, the explained variance also where all returns are equal.
BINS = Table(
    "value_diagnostics.csv",
    {"run_dir": str, "name": str, "seed": int | None, "iteration": int, "bin": int, "group": str}
    | {"num_tokens": int, "value_mean": float | None, "return_mean": float | None}
    | {"advantage_mean": float | None, "explained_variance": float | None},
)


def run(paths: list[Path], out: Path) -> list[Path]:
    """Writes value_diagnostics.csv, .png and .svg; returns their paths.

    Each path is the run directory of a critic run, of which the first, the middle and the last
    iteration with diagnostics are shown, or a directory whose value_diagnostics.csv is drawn again.
    """
    rows = pd.concat(BINS.read(path) if BINS.holds(path) else bin_rows(path) for path in paths)
    runs = [bins for _, bins in rows.groupby("run_dir", sort=False)]
    columns = [name for name in PANELS if rows[name].notna().any()]
    with figures.panels(len(runs), len(columns)) as (figure, axes):
        for index, bins in enumerate(runs):
            draw_run(axes[len(columns) * index : len(columns) * (index + 1)], bins, columns)
        figures.shared_legend(figure, *axes[:: len(columns)])
        return [*figures.save(figure, out / "value_diagnostics"), *BINS.write(out, rows)]


def bin_rows(path: Path) -> pd.DataFrame:
    """`BINS` of a run directory at its first, middle and last iteration with diagnostics.

    Raises `UserError` for a run without any, and naming a table that is damaged.
    """
    config = read_config(path)
    iterations = existing_run_dir(path).iterations(DIAGNOSTICS)
    if not iterations:
        raise UserError(f"{path} has no {DIAGNOSTICS}/ (only runs with a critic write them)")
    shown = choose_iterations(iterations, "ends", "iterations", str(path))
    rows = pd.concat(statistics(read_tokens(path, i)).assign(iteration=i) for i in shown)
    name, seed = config.get("name", path.name), config.get("seed")
    return BINS.frame(rows.assign(run_dir=str(path), name=name, seed=seed))


def read_tokens(path: Path, iteration: int) -> pd.DataFrame:
    """The tokens of a critic run's table of an iteration, by place in the response.

    `values` are the critic's before each token, `returns` the rewards to go, `advantages` raw;
    `bin` is the part of the response. Tokens with a number that is not finite are left out. Raises
    `UserError` naming the file, which may be missing, damaged, of other columns or lists of another
    length than `count`.
    """
    file = path / DIAGNOSTICS / f"iter_{iteration:06d}.parquet"
    rows = pd.DataFrame(read_parquet(file))
    if rows.empty:
        raise UserError(f"{file} holds no row")
    for column in ("axis", "bin", "is_correct", "count", *NUMBERS):
        if column not in rows:
            raise UserError(f"{file} has no column {column}")
    for number, row in enumerate(rows.to_dict("records"), start=1):
        for column in NUMBERS:
            if len(row[column] or ()) != row["count"]:
                raise UserError(f"{file}, row {number}: {column} must hold `count` numbers")
    tokens = rows.loc[rows["axis"] == "percentile", ["bin", "is_correct", *NUMBERS]]
    tokens = tokens.explode(NUMBERS).astype(dict.fromkeys(NUMBERS, float))
    return tokens[np.isfinite(tokens[NUMBERS]).all(axis=1)]


def statistics(tokens: pd.DataFrame) -> pd.DataFrame:
    """By bin and group: how many tokens, their means and explained variance.

    1 − Var(returns − values) / Var(returns): values (0.25, 0.75) of returns (0, 1) leave a variance
    of 1/16 of 1/4, that is 0.75. It is taken over correct and incorrect responses together: with
    γ = 1 the returns of each alone are constant.
    """
    tokens = tokens.assign(errors=tokens["returns"] - tokens["values"])
    outcomes = np.where(tokens["is_correct"], *LINE_OF_GROUP)
    groups = pd.concat([tokens.assign(group=ALL), tokens.assign(group=outcomes)])
    bins = groups.groupby(["bin", "group"])
    variances = bins[["errors", "returns"]].agg(lambda numbers: np.var(numbers.to_numpy()))
    vary = bins["returns"].nunique() > 1
    numbers = bins[NUMBERS].mean().rename(columns=lambda name: f"{name.removesuffix('s')}_mean")
    numbers["num_tokens"] = bins.size()
    explained = 1 - variances["errors"] / variances["returns"].where(vary)
    numbers["explained_variance"] = explained
    places = pd.MultiIndex.from_product(
        [range(NUM_BINS), [ALL, *LINE_OF_GROUP]], names=["bin", "group"]
    )
    return numbers.reindex(places).fillna({"num_tokens": 0}).reset_index()


def draw_run(axes: Sequence[Axes], rows: pd.DataFrame, columns: Sequence[str]) -> None:
    """A panel a column: means by group, the explained variance of all; a colour an iteration.

    A line has a gap where a number is unknown.
    """

    iterations = list(rows["iteration"].unique())
    names = PLACES if len(iterations) == len(PLACES) else (PLACES[0], PLACES[-1])
    for iteration, name in zip(iterations, names, strict=False):  # there may be only one
        color = figures.in_order(len(PLACES))[PLACES.index(name)]
        for group, bins in rows[rows["iteration"] == iteration].groupby("group"):
            style: dict[str, Any] = {"color": color, "linestyle": LINE_OF_GROUP.get(group, "-")}
            if group != ALL:
                style["label"] = f"{name} iteration, {group}"
            for axis, column in zip(axes, columns, strict=True):
                if (group == ALL) == (column == "explained_variance"):
                    axis.plot(100 * (bins["bin"] + 0.5) / NUM_BINS, bins[column], **style)
    for axis, column in zip(axes, columns, strict=True):
        axis.set(xlabel="part of the response (%)", xlim=(0, 100), ylabel=PANELS[column])
    shown, first = ", ".join(map(str, iterations)), rows.iloc[0]
    name = figures.method_label(first["name"])
    axes[0].set_title(f"{name}, seed {first.seed}: iterations {shown}")
    for axis in axes[1:]:
        axis.axhline(0, color="0.7", linewidth=0.6, zorder=0)
