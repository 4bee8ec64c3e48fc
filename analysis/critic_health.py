"""`critic-health`: what learned values knew of the rewards, by iteration and along the response."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import figures
from analysis.frames import choose_iterations, existing_run_dir, read_config, read_run
from analysis.report.curves import running_mean
from analysis.tables import Table
from vineppo.errors import UserError
from vineppo.run_dir.tables import read_parquet

HEALTH_PANELS = {
    "explained_variance": "explained variance",
    "within_problem_correlation": "correlation within problems",
    "calibration_error": "calibration error",
    "value_std": "SD of values; dotted: of rewards",
}
RETURN_STD = "return_std"
HEALTH_NUMBERS = [*HEALTH_PANELS, RETURN_STD]
# What metrics.jsonl has of the values before each iteration's update, against the rewards to go.
HEALTH = Table(
    "value_health.csv",
    {"method": str, "seed": int | None, "predictor": str, "iteration": int}
    | dict.fromkeys(HEALTH_NUMBERS, float | None),
)
METRIC = re.compile(rf"(critic|values/(?P<name>[^/]+))/({'|'.join(HEALTH_NUMBERS)})")
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
    """Writes both tables and their figures; returns the paths.

    Each path is a run directory, or a directory whose value_health.csv is drawn again, and
    value_diagnostics.csv beside it. Of a critic's run the first, the middle and the last iteration
    with diagnostics are shown along the response.
    """
    folders = [path for path in paths if HEALTH.holds(path) or BINS.holds(path)]
    written: list[Path] = []
    for table, of_run, draw in ((HEALTH, health_rows, draw_health), (BINS, bin_rows, draw_bins)):
        parts = [
            of_run(path) if path not in folders else table.read(path)
            for path in paths
            if path not in folders or table.holds(path)
        ]
        rows = table.frame(pd.concat(parts)) if parts else table.frame([])
        if not rows.empty:
            written += [*draw(rows, out / table.name.removesuffix(".csv")), *table.write(out, rows)]
    if not written:
        raise UserError(f"{paths[0]} has neither metrics of learned values nor {DIAGNOSTICS}/")
    return written


def health_rows(path: Path) -> pd.DataFrame:
    """`HEALTH` of a run directory, none of a run without learned values."""
    run = read_run(path)
    columns: dict[str, dict[str, str]] = {}  # by predictor and number
    for column in run.metrics:
        if match := METRIC.fullmatch(str(column)):
            columns.setdefault(match["name"] or "critic", {})[match[3]] = str(column)
    if not columns:
        return HEALTH.frame([])
    by_predictor = (
        run.metrics[["iteration"]].assign(
            method=run.name,
            seed=run.seed,
            predictor=predictor,
            **{number: run.metrics[column] for number, column in own.items()},
        )
        for predictor, own in columns.items()
    )
    return HEALTH.frame(pd.concat(by_predictor))


def draw_health(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A panel a number: its mean over seeds by iteration, of long runs a running mean."""
    names = [f"{row.method}, {row.predictor}" for row in rows.itertuples()]
    lines = list(rows.groupby(names, sort=False))
    styles = figures.method_styles([str(name) for name, _ in lines])
    several = rows.groupby("method")["predictor"].nunique().max() > 1
    with figures.grid(len(HEALTH_PANELS), 2) as (figure, axes):
        for axis, (number, label) in zip(axes, HEALTH_PANELS.items(), strict=True):
            for name, group in lines:
                style = styles[str(name)] | {"marker": ""}
                means = group.groupby("iteration")[HEALTH_NUMBERS].mean()
                means = means.apply(lambda series: running_mean(series, len(series) // 20))
                method, predictor = group.iloc[0][["method", "predictor"]]
                label_of = figures.method_label(method)
                if several:
                    label_of += f": {figures.predictor_label(predictor)}"
                axis.plot(means[number], label=label_of, **style)
                if number == "value_std":
                    axis.plot(means[RETURN_STD], **style | {"linestyle": ":"}, linewidth=0.8)
            axis.axhline(0, color="0.7", linewidth=0.6, zorder=0)
            axis.set_ylabel(label)
            figures.whole_iterations(axis)
        axes[0].set_ylim(bottom=max(axes[0].get_ylim()[0], -1))  # a bad head's is far below
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def bin_rows(path: Path) -> pd.DataFrame:
    """`BINS` of a run directory at its first, middle and last iteration with diagnostics.

    None of a run without any. Raises `UserError` naming a table that is damaged.
    """
    config = read_config(path)
    iterations = existing_run_dir(path).iterations(DIAGNOSTICS)
    if not iterations:
        return BINS.frame([])
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


def draw_bins(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A row of panels a run."""
    runs = [bins for _, bins in rows.groupby("run_dir", sort=False)]
    columns = [name for name in PANELS if rows[name].notna().any()]
    with figures.panels(len(runs), len(columns)) as (figure, axes):
        for index, bins in enumerate(runs):
            draw_run(axes[len(columns) * index : len(columns) * (index + 1)], bins, columns)
        figures.shared_legend(figure, *axes[:: len(columns)])
        return figures.save(figure, path)


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
