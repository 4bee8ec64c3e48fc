"""`learning-curves`: pass@1 by iteration, training time and sampled tokens.

Runs of one name that differ in their seed alone are one curve, the interquartile mean over seeds.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import costs, figures, frames
from analysis.costs import EQUAL_COST, by_method, cost_curve
from analysis.frames import OF_RUN, PHASES, Run, common_iterations
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import area_under_curve, iqm, iqm_difference
from analysis.tables import Table, estimate

# Every evaluation of every run; `low` and `high` are its 95 % bootstrap interval over problems.
CURVES = Table(
    "learning_curves.csv",
    OF_RUN
    | {"iteration": int, "elapsed_s": float | None, "tokens_sampled": int | None}
    | {"pass@1": float, "low": float | None, "high": float | None}
    | {"num_problems": int, "samples_per_problem": int},
)
# A phase of one run: mean seconds an iteration, and their share of its training time.
RUN_PHASES = Table(
    "phases.csv",
    OF_RUN | {"num_iterations": int, "phase": str, "seconds": float, "share": float},
)
# A method in numbers: interquartile means of pass@1 over seeds at the first and last iteration and
# over all of them (`area`); mean costs up to the last; the end compared with the first method's.
SUMMARY = Table(
    "summary.csv",
    {"method": str, "seeds": str, "interval_over": str, "last_iteration": int}
    | {"start_pass@1": Estimate, "end_pass@1": Estimate, "area": Estimate}
    | {"elapsed_s": float | None, "tokens_sampled": float | None}
    | {"difference": Estimate},
)
# Evaluations measure the training and are no part of it; training time leaves them out too.
PHASE_NAMES = [*(name for name in PHASES.values() if name != "evaluation"), "other"]
PHASES_WIDTH_IN = 1.4  # of the methods' names


def run(paths: list[Path], out: Path) -> list[Path]:
    """Writes the tables and figures of several methods; returns their paths.

    Each path is a run directory, or one with a learning_curves.csv (and phases.csv) to draw again.
    """
    rows, phases = read_methods(paths)
    figures_of = draw_methods(rows, out / "learning_curves"), draw_phases(phases, out / "phases")
    return [*figures_of[0], *figures_of[1], *write_tables(rows, phases, out)]


def read_methods(paths: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`CURVES` and `RUN_PHASES` of run directories and tables, methods in order of first sight.

    Raises `UserError` for what is neither, and for runs that cannot be compared.
    """
    runs, rows = frames.read_all(
        paths, CURVES, lambda run: frames.learning_curve(run).assign(**run.identity), "method"
    )
    frames.check_same_problems(runs)
    frames.check_same_evaluation(runs)
    frames.check_same_configs(runs)
    frames.check_seeds_once(rows, "iteration")
    common_iterations(rows)
    folders = [path for path in paths if CURVES.holds(path) and RUN_PHASES.holds(path)]
    of_all = [RUN_PHASES.frame([]), *map(RUN_PHASES.read, folders), *map(run_phases, runs)]
    phases = RUN_PHASES.frame(pd.concat(of_all, ignore_index=True))
    methods = rows["method"].unique()
    return (
        frames.in_order(rows, ["method", "seed", "iteration"], method=methods),
        frames.in_order(phases, ["method", "seed", "phase"], method=methods, phase=PHASE_NAMES),
    )


def run_phases(run: Run) -> pd.DataFrame:
    """`RUN_PHASES`: a row a phase that took any time, none where no iteration logged its time."""
    seconds = frames.phase_seconds(run)[PHASE_NAMES]
    means = seconds.mean()
    frame = pd.DataFrame({"phase": means.index, "seconds": means.values})
    frame = frame.assign(
        share=frame["seconds"] / (means.sum() or 1.0), num_iterations=len(seconds), **run.identity
    )
    return RUN_PHASES.frame(frame[frame["seconds"] > 0])


def summarize(rows: pd.DataFrame) -> pd.DataFrame:
    """`SUMMARY`, a row a method."""
    common = common_iterations(rows)
    results: list[dict[str, Any]] = []
    baseline: list[float] | None = None
    for name, group in by_method(common).items():
        curve = cost_curve(group, "iteration")
        last = group[group["iteration"] == group["iteration"].max()]
        ends = list(last["pass@1"])
        areas = [area_under_curve(*seed) for seed in costs.seed_curves(group, "iteration")]
        results.append(
            {
                "method": name,
                "seeds": " ".join(map(str, last["seed"])),
                "interval_over": "seeds" if len(last) > 1 else "problems",
                "last_iteration": last["iteration"].iloc[0],
                "start_pass@1": estimate(curve.iloc[0], "pass@1"),
                "end_pass@1": estimate(curve.iloc[-1], "pass@1"),
                "area": iqm(areas),
                "elapsed_s": last["elapsed_s"].mean(skipna=False),
                "tokens_sampled": last["tokens_sampled"].astype(float).mean(skipna=False),
                "difference": None if baseline is None else iqm_difference(ends, baseline),
            }
        )
        baseline = baseline or ends
    return SUMMARY.frame(results)


def method_phases(phases: pd.DataFrame) -> pd.DataFrame:
    """Seconds of an iteration, methods by phase: means over the seeds, 0 where one has no row."""
    num_seeds = phases.groupby("method", sort=False)["seed"].nunique()
    sums = phases.pivot_table(index="method", columns="phase", values="seconds", aggfunc="sum")
    taken = [name for name in PHASE_NAMES if name in sums]
    return sums.reindex(index=num_seeds.index, columns=taken).fillna(0).div(num_seeds, axis=0)


def write_tables(rows: pd.DataFrame, phases: pd.DataFrame, out: Path) -> list[Path]:
    """Writes the evaluations of every run, the phases, and what they come to; returns the paths."""
    return [
        *CURVES.write(out, rows),
        *RUN_PHASES.write(out, phases),
        *EQUAL_COST.write(out, costs.at_equal_cost(rows)),
        *SUMMARY.write(out, summarize(rows)),
    ]


def draw_methods(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A panel a cost that any of the methods knows."""
    methods, labels = by_method(rows), figures.seed_labels(rows)
    curves = {
        cost: {name: cost_curve(group, cost) for name, group in methods.items()}
        for cost in costs.COSTS
    }
    with costs.cost_panels(curves, labels) as figure:
        return figures.save(figure, path)


def draw_phases(phases: pd.DataFrame, path: Path) -> list[Path]:
    """Two panels of stacked bars, a bar a method: seconds of an iteration, and their shares."""
    if phases.empty:
        return []
    seconds = method_phases(phases)
    seconds = seconds.rename(index=figures.method_labels(list(seconds.index)))
    shares = seconds.div(seconds.sum(axis=1), axis=0)
    by_phase = dict(
        zip(PHASE_NAMES, (*figures.PHASE_COLORS[: len(PHASE_NAMES) - 1], "#BBBBBB"), strict=True)
    )
    colors = [by_phase[name] for name in seconds]
    both = {"seconds an iteration": seconds, "share of training time": shares}
    with figures.panels(1, 2, PHASES_WIDTH_IN) as (figure, axes):
        for axis, (label, frame) in zip(axes, both.items(), strict=True):
            frame.plot.barh(stacked=True, ax=axis, color=colors, width=0.8, legend=False)
            axis.invert_yaxis()  # the first method on top
            axis.set(xlabel=label, ylabel="")
        axes[1].set_xlim(0, 1)
        axes[1].set_yticklabels([])
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)
