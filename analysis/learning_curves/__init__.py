"""`learning-curves`: pass@1 by iteration, gradient step, training time and sampled tokens.

Runs of one name that differ in their seed alone are one curve, the interquartile mean over seeds.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import figures
from analysis.intervals import NUM_SEED_RESAMPLES
from analysis.learning_curves.cost_curves import (
    COSTS,
    ELAPSED,
    ITERATION,
    TOKENS,
    BandPoint,
    Cost,
    cost_curve,
    draw_curve,
    points_of,
)
from analysis.learning_curves.equal_cost import at_equal_cost, equal_cost_rows
from analysis.learning_curves.phases import TABLE_NAME as PHASES_TABLE
from analysis.learning_curves.phases import PhaseRow, draw_phases, method_phases, read_phases
from analysis.learning_curves.summary import summarize, summary_rows
from analysis.learning_curves.summary_content import summary_content
from analysis.learning_curves.summary_markdown import summary_markdown
from analysis.learning_curves.time_to_target import (
    TimeToTarget,
    default_target,
    draw_times,
    target_rows,
    times_to_target,
)
from analysis.methods import TABLE_NAME, Method, read_methods
from analysis.reading import CurvePoint
from analysis.summary_file import write_summary
from analysis.tables import write_table
from vineppo.errors import UserError
from vineppo.run_dir.files import write_atomic

ANALYSIS = "learning-curves"
CAPTION = (
    "line: interquartile mean over seeds, at equal cost as far as every seed goes; band: 95 % "
    f"bootstrap over seeds ({NUM_SEED_RESAMPLES:,} resamples), of one seed over test problems"
)
TIMES = "(Kaplan–Meier); grey: the horizon of the restricted means"
SCORE = "test pass@1 (95 % band)"
PHASES_WIDTH_IN = 1.4  # of the methods' names


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--target",
        type=float,
        help="pass@1 whose cost is asked for; default: the highest that every method reaches",
    )


def run(paths: list[Path], out: Path, target: float | None = None) -> None:
    """Writes the tables, figures and summaries of several methods; prints their paths.

    Each path is a run directory, or a directory whose learning_curves.csv (and phases.csv) is drawn
    again.
    """
    if target is not None and not 0 < target <= 1:
        raise UserError(f"--target must be a pass@1 above 0 and up to 1, got {target:g}")
    methods, phases = read_methods(paths), read_phases(paths)
    target = default_target(methods) if target is None else target
    times = times_to_target(methods, target)
    written = [
        *_draw_methods(methods, out),
        *_draw_times(times, out),
        *_draw_phases(phases, out),
        *write_tables(methods, out, target, phases),
    ]
    for path in written:
        print(path)


def write_tables(
    methods: list[Method],
    out: Path,
    target: float | None = None,
    phases: Sequence[PhaseRow] = (),
) -> list[Path]:
    """Writes the evaluations of every run, the phases, and what they come to; returns the paths."""
    target = default_target(methods) if target is None else target
    summaries, compared = summarize(methods), at_equal_cost(methods)
    times, means = times_to_target(methods, target), method_phases(phases)
    rows = [row for method in methods for of in method.rows_by_seed.values() for row in of]
    tables = {
        TABLE_NAME: [dataclasses.asdict(row) for row in rows],
        PHASES_TABLE: [dataclasses.asdict(row) for row in phases],
        "equal_cost.csv": equal_cost_rows(compared),
        "time_to_target.csv": target_rows(times),
        "summary.csv": summary_rows(summaries),
    }
    for name, of in tables.items():
        if of:
            write_table(out / name, of)
    text = summary_markdown(methods, summaries, compared, times, means)
    write_atomic(out / "summary.md", text.encode())
    content = summary_content(summaries, compared, times, means)
    return [
        *(out / name for name, of in tables.items() if of),
        out / "summary.md",
        write_summary(out, ANALYSIS, content),
    ]


def label(method: Method) -> str:
    """The method's name and its seeds, on which it depends what its band is about."""
    num_seeds = len(method.rows_by_seed)
    return f"{method.name} ({num_seeds} seed{'s' if num_seeds > 1 else ''})"


def draw_curves(
    figure: Figure, axes: list[Axes], names: list[str], curves: list[list[CurvePoint]]
) -> None:
    """Three panels of single runs with their bands: by iteration, training time and tokens."""
    for axis, cost in zip(axes, (ITERATION, ELAPSED, TOKENS), strict=True):
        draw_panel(axis, cost, names, [points_of(curve, cost) for curve in curves])
    figures.shared_legend(figure, axes[0])


def draw_panel(
    axis: Axes, cost: Cost, names: Sequence[str], curves: Sequence[Sequence[BandPoint]]
) -> None:
    """Curves with their bands against one cost."""
    unit, text = cost.unit(max((point.cost for curve in curves for point in curve), default=0.0))
    for index, (name, curve) in enumerate(zip(names, curves, strict=True)):
        draw_curve(axis, index, name, curve, unit)
    axis.set_xlabel(text)
    axis.set_xlim(left=0)
    if cost is ITERATION:
        figures.whole_iterations(axis)
        axis.set_ylabel(SCORE)


def _draw_methods(methods: list[Method], out: Path) -> list[Path]:
    """A panel a cost that any of the methods knows."""
    curves = {cost: [cost_curve(method, cost) for method in methods] for cost in COSTS}
    known = [cost for cost in COSTS if any(curves[cost])]
    num_columns = 2 if len(known) == 4 else len(known)
    with figures.panels(-(-len(known) // num_columns), num_columns) as (figure, axes):
        for axis, cost in zip(axes, known, strict=True):
            draw_panel(axis, cost, list(map(label, methods)), curves[cost])
        for first in axes[::num_columns]:
            first.set_ylabel(SCORE)
        limits = [limit for axis in axes for limit in axis.get_ylim()]
        for axis in axes:
            axis.set_ylim(min(limits), max(limits))
        figures.caption(figure, CAPTION)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "learning_curves")


def _draw_times(times: list[TimeToTarget], out: Path) -> list[Path]:
    costs = [cost for cost in COSTS if any(one.cost == cost.field for one in times)]
    num_columns = 2 if len(costs) == 4 else len(costs)
    with figures.panels(-(-len(costs) // num_columns), num_columns) as (figure, axes):
        for axis, cost in zip(axes, costs, strict=True):
            draw_times(axis, [one for one in times if one.cost == cost.field], cost)
        figures.caption(figure, f"seeds that have reached pass@1 {times[0].target:g} {TIMES}")
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "time_to_target")


def _draw_phases(rows: Sequence[PhaseRow], out: Path) -> list[Path]:
    methods = method_phases(rows)
    if not methods:
        return []
    with figures.panels(1, 2, PHASES_WIDTH_IN) as (figure, axes):
        draw_phases(axes, methods)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "phases")
