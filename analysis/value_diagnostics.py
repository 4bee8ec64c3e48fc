"""`value-diagnostics`: what a critic believes along the response, and how much of it is true."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from analysis import figures
from analysis.frames import existing_run_dir, read_config
from analysis.old_tables import read_table, write_table
from vineppo.errors import UserError
from vineppo.run_dir.tables import read_parquet

TABLE_NAME = "value_diagnostics.csv"
DIAGNOSTICS = "value_diagnostics"
DIAGNOSTICS_LISTS = ("values", "returns", "advantages")
NUM_BINS = 20  # of the axis "percentile"
LINE_OF_GROUP = {"correct": "-", "incorrect": "--"}
ALL = "all"
PLACES = ("first", "middle", "last")  # of the iterations shown; runs may differ in their numbers


@dataclass(frozen=True)
class BinRow:
    """The tokens of a bin, of all responses or of the correct or the incorrect ones.

    The means are None of no tokens, the explained variance also where all returns are equal.
    """

    run_dir: str
    name: str
    seed: int | None
    iteration: int
    bin: int
    group: str
    num_tokens: int
    value_mean: float | None
    return_mean: float | None
    advantage_mean: float | None
    explained_variance: float | None


def run(paths: list[Path], out: Path) -> None:
    """Writes value_diagnostics.csv, .png and .svg; prints their paths.

    Each path is the run directory of a critic run, of which the first, the middle and the last
    iteration with diagnostics are shown, or a directory whose value_diagnostics.csv is drawn again.
    """
    rows = [row for path in paths for row in _rows_of(path)]
    write_table(out / TABLE_NAME, [dataclasses.asdict(row) for row in rows])
    run_dirs = list(dict.fromkeys(row.run_dir for row in rows))
    with figures.panels(len(run_dirs), 3) as (figure, axes):
        for index, run_dir in enumerate(run_dirs):
            draw_run(axes[3 * index : 3 * index + 3], [r for r in rows if r.run_dir == run_dir])
        # A run with fewer than three tables lacks some of the lines.
        figures.shared_legend(figure, max(axes[::3], key=lambda axis: len(axis.get_lines())))
        written = figures.save(figure, out / "value_diagnostics")
    for path in [*written, out / TABLE_NAME]:
        print(path)


def bin_rows(path: Path) -> list[BinRow]:
    """The bins of a run directory at its first, middle and last iteration with diagnostics."""
    config = read_config(path)
    iterations = diagnostics_iterations(path)
    last = len(iterations) - 1
    return [
        BinRow(
            run_dir=str(path),
            name=config.get("name", path.name),
            seed=config.get("seed"),
            iteration=iteration,
            bin=index,
            group=group,
            **statistics([row for row in table if row["bin"] == index], group),
        )
        for iteration in (iterations[i] for i in sorted({0, last // 2, last}))
        for table in [read_value_diagnostics(path, iteration, "percentile")]
        for index in range(NUM_BINS)
        for group in (ALL, *LINE_OF_GROUP)
    ]


def statistics(rows: Sequence[dict[str, Any]], group: str) -> dict[str, Any]:
    """The means and the explained variance over the tokens of `rows` that are of `group`.

    Tokens whose value, return or advantage is not finite are left out.
    """
    chosen = [row for row in rows if group == ALL or row["is_correct"] == (group == "correct")]
    values_T, returns_T, advantages_T = (
        np.array([number for row in chosen for number in row[column]], dtype=float)
        for column in ("values", "returns", "advantages")
    )
    is_finite_T = np.isfinite(values_T) & np.isfinite(returns_T) & np.isfinite(advantages_T)
    values_T, returns_T = values_T[is_finite_T], returns_T[is_finite_T]
    return {
        "num_tokens": len(values_T),
        "value_mean": _mean(values_T),
        "return_mean": _mean(returns_T),
        "advantage_mean": _mean(advantages_T[is_finite_T]),
        "explained_variance": explained_variance(values_T, returns_T),
    }


def explained_variance(values_T: np.ndarray, returns_T: np.ndarray) -> float | None:
    """1 − Var(returns − values) / Var(returns); None where the returns are all equal or none.

    Values (0.25, 0.75) of returns (0, 1) leave a variance of 1/16 of 1/4: 0.75. It is taken over
    correct and incorrect responses together: with γ = 1 the returns of each alone are constant.
    """
    if len(returns_T) == 0 or np.ptp(returns_T) == 0:
        return None
    return float(1 - np.var(returns_T - values_T) / np.var(returns_T))


def draw_run(axes: Sequence[Axes], rows: Sequence[BinRow]) -> None:
    """Mean value and mean advantage by group, and explained variance: a colour an iteration."""
    iterations = list(dict.fromkeys(row.iteration for row in rows))
    names = PLACES if len(iterations) == len(PLACES) else (PLACES[0], PLACES[-1])
    for iteration, name in zip(iterations, names, strict=False):  # there may be only one
        style = figures.line_style(PLACES.index(name))
        of_iteration = [row for row in rows if row.iteration == iteration]
        for group, line in LINE_OF_GROUP.items():
            chosen = [row for row in of_iteration if row.group == group]
            label = f"{name} iteration, {group}"
            for axis, field in zip(axes[:2], ("value_mean", "advantage_mean"), strict=True):
                draw_bins(axis, chosen, field, style | {"linestyle": line, "label": label})
        pooled = [row for row in of_iteration if row.group == ALL]
        draw_bins(axes[2], pooled, "explained_variance", style)
    for axis, label in zip(
        axes, ("mean value", "mean advantage", "explained variance"), strict=True
    ):
        axis.set_xlabel("part of the response (%)")
        axis.set_xlim(0, 100)
        axis.set_ylabel(label)
    shown = ", ".join(map(str, iterations))
    axes[0].set_title(f"{rows[0].name}, seed {rows[0].seed}: iterations {shown}")
    for axis in axes[1:]:
        axis.axhline(0, color="0.7", linewidth=0.6, zorder=0)


def draw_bins(axis: Axes, rows: Sequence[BinRow], field: str, style: dict[str, Any]) -> None:
    """A field against the middles of the bins; a gap where it is unknown."""
    middles = [100 * (row.bin + 0.5) / NUM_BINS for row in rows]
    known = [getattr(row, field) for row in rows]
    axis.plot(middles, [float("nan") if y is None else y for y in known], **style)


def read_value_diagnostics(path: Path, iteration: int, axis: str) -> list[dict[str, Any]]:
    """The rows of one `axis` ("position", "percentile") of a critic run's table of an iteration.

    A row is a `bin` of the axis, of correct responses or of others (`is_correct`), with `count`
    tokens, whose `values` are the critic's before each, `returns` the rewards to go and
    `advantages` raw. Raises `UserError` naming the file, which may be missing, damaged, of other
    columns or lists of another length than `count`.
    """
    table = path / DIAGNOSTICS / f"iter_{iteration:06d}.parquet"
    rows = read_parquet(table)
    if not rows:
        raise UserError(f"{table} holds no row")
    for column in ("axis", "bin", "is_correct", "count", *DIAGNOSTICS_LISTS):
        if column not in rows[0]:
            raise UserError(f"{table} has no column {column}")
    for number, row in enumerate(rows, start=1):
        for column in DIAGNOSTICS_LISTS:
            if len(row[column] or ()) != row["count"]:
                raise UserError(f"{table}, row {number}: {column} must hold `count` numbers")
    return [row for row in rows if row["axis"] == axis]


def diagnostics_iterations(path: Path) -> list[int]:
    """The iterations with value diagnostics, ascending. Raises `UserError` where there are none."""
    iterations = existing_run_dir(path).iterations(DIAGNOSTICS)
    if not iterations:
        raise UserError(f"{path} has no {DIAGNOSTICS}/ (only runs with a critic write them)")
    return iterations


def _rows_of(path: Path) -> list[BinRow]:
    if (path / TABLE_NAME).exists() and not (path / "config.json").exists():
        return read_table(path / TABLE_NAME, BinRow)
    return bin_rows(path)


def _mean(numbers: np.ndarray) -> float | None:
    return float(np.mean(numbers)) if len(numbers) else None
