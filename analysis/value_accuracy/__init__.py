"""`value-accuracy`: what a value estimate is worth, measured against many fresh continuations.

Every state that `ground-truth` sampled gets the values that the `predictors` give it, a row of
`states` each. Rows become `cells`, and these the tables: `scores`, the `comparison` with the fresh
Monte-Carlo estimate, errors in `strata`, and `reliability` diagrams.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from analysis.old_tables import write_table
from analysis.summary import write_summary
from analysis.value_accuracy.cells import Cell, make_cells
from analysis.value_accuracy.comparison import difference_rows
from analysis.value_accuracy.options import add_options, checked, wanted
from analysis.value_accuracy.overview_figure import draw_overview
from analysis.value_accuracy.reliability import reliability_rows
from analysis.value_accuracy.scores import score_row
from analysis.value_accuracy.settings import Settings
from analysis.value_accuracy.sources import collect
from analysis.value_accuracy.state_figures import draw_reliability, draw_scatter
from analysis.value_accuracy.states import BOUNDARY, TABLE_NAME, write_states
from analysis.value_accuracy.strata import stratum_rows
from analysis.value_accuracy.stratum_figure import draw_strata
from analysis.value_accuracy.style import shown
from vineppo.errors import UserError

__all__ = ["add_options", "run"]

NAME = "value-accuracy"
STEM = "value_accuracy"
SUMMARY_STATISTICS = (
    "bias",
    "mae",
    "mae_floor",
    "mse_corrected",
    "equivalent_draws",
    "accuracy",
    "pearson_disattenuated",
    "pearson_within_disattenuated",
    "brier_miscalibration",
)

Table = list[dict[str, Any]]


def run(
    paths: list[Path],
    out: Path,
    truth: Path | None,
    predictors: str | None,
    continuations: str,
    threshold: float,
    level: float,
    num_resamples: int,
    num_refits: int,
    seed: int,
) -> None:
    """Writes five tables, the figures and a summary; prints their paths.

    Each path is a run directory whose ground truth has been made, or a directory whose
    value_accuracy_states.parquet is drawn again. Raises `UserError` for what `sources.collect`
    refuses, and for options that cannot be.
    """
    settings = checked(Settings(threshold, level, num_resamples, num_refits, seed))
    rows = collect(paths, out, truth, wanted(predictors, continuations))
    cells = make_cells(rows)
    if not cells:
        raise UserError(f"{paths[0]}: no predictor says anything of the states of the truth")
    tables = make_tables(cells, settings)
    write_states(out / TABLE_NAME, rows)
    written = [out / TABLE_NAME]
    for suffix, table in tables.items():
        if table:
            written.append(out / f"{STEM}{suffix}.csv")
            write_table(written[-1], table)
    if any(cell.group == BOUNDARY for cell in cells):
        written += [
            *draw_overview(tables[""], out / STEM),
            *draw_scatter(cells, out / f"{STEM}_scatter"),
            *draw_reliability(tables["_reliability"], out / f"{STEM}_reliability"),
            *draw_strata(tables["_strata"], out / f"{STEM}_strata"),
        ]
    written.append(write_summary(out, NAME, _summary(tables[""], settings)))
    for path in written:
        print(path)


def make_tables(cells: Sequence[Cell], settings: Settings) -> dict[str, Table]:
    """The rows of the tables by what their names add to `value_accuracy`."""
    console = Console(stderr=True)
    progress = track(cells, NAME, console=console, transient=True, disable=not console.is_terminal)
    return {
        "": [score_row(cell, settings) for cell in progress],
        "_differences": difference_rows(cells, settings),
        "_strata": stratum_rows(cells, settings),
        "_reliability": reliability_rows(cells, settings),
    }


def _summary(rows: Table, settings: Settings) -> dict[str, Any]:
    """The main numbers on the step boundaries, by method, checkpoint and predictor."""
    methods: dict[str, Any] = {}
    for row in shown([row for row in rows if row["group"] == BOUNDARY]):
        of_method = methods.setdefault(row["name"], {})
        of_method.setdefault(str(row["checkpoint"]), {})[row["predictor"]] = {
            "seed": row["seed"],
            "is_own_policy": bool(row["is_own_policy"]),
            "num_states": row["num_states"],
            "num_problems": row["num_problems"],
        } | {
            name: {"value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
            for name in SUMMARY_STATISTICS
            if row[name] is not None
        }
    return {"level": settings.level, "threshold": settings.threshold, "methods": methods}
