"""`learning-curves`: pass@1 by iteration, gradient step, training time and sampled tokens.

Runs of one name that differ in their seed alone are one curve, the interquartile mean over seeds.
"""

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import figures
from analysis.frames import (
    IDENTITY,
    PHASES,
    Run,
    check_same_configs,
    check_same_evaluation,
    check_same_problems,
    check_seeds_once,
    common_iterations,
    learning_curve,
    phase_seconds,
    read_all,
)
from analysis.learning_summary import summary_content, summary_markdown
from analysis.stats import seeds
from analysis.stats.bootstrap import Estimate
from analysis.stats.seeds import NUM_SEED_RESAMPLES, iqm, iqm_difference, probability_of_improvement
from analysis.summary import write_summary
from analysis.tables import Table, estimate
from vineppo.errors import UserError
from vineppo.run_dir.files import write_atomic

# Every evaluation of every run; `low` and `high` are its 95 % bootstrap interval over problems.
CURVES = Table(
    "learning_curves.csv",
    {
        **dict(zip(IDENTITY, (str, str, int), strict=True)),
        "iteration": int,
        "elapsed_s": float | None,
        "tokens_sampled": int | None,
        "pass@1": float,
        "low": float | None,
        "high": float | None,
        "num_problems": int,
        "samples_per_problem": int,
        "gradient_steps": int | None,
    },
    added=("gradient_steps",),
)
# A phase of one run: mean seconds an iteration, and their share of its training time.
RUN_PHASES = Table(
    "phases.csv",
    {
        **dict(zip(IDENTITY, (str, str, int), strict=True)),
        "num_iterations": int,
        "phase": str,
        "seconds": float,
        "share": float,
    },
)
# A method at `budget`, the largest cost that every seed of every method has reached:
# interquartile means over seeds of pass@1 there and of its mean over the costs up to it;
# `difference` and `improvement` compare pass@1 with the first method's.
EQUAL_COST = Table(
    "equal_cost.csv",
    {
        "method": str,
        "cost": str,
        "budget": float,
        "pass@1": Estimate,
        "mean_pass@1": Estimate,
        "difference": Estimate,
        "improvement": Estimate,
    },
)
# The cost of first showing `target`. `median` is Kaplan–Meier's, empty where more than half of the
# seeds had not reached when last seen. `restricted_mean` is the mean of min(cost, horizon);
# `horizon`, the same of all methods, is the least cost at which a seed that had not reached was
# last seen, or where all have reached the cost of the last. So every seed is known up to it.
TIME_TO_TARGET = Table(
    "time_to_target.csv",
    {
        "method": str,
        "cost": str,
        "target": float,
        "num_seeds": int,
        "num_reached": int,
        "median": float | None,
        "horizon": float,
        "restricted_mean": Estimate,
    },
)
# A method in numbers: interquartile means of pass@1 over seeds at the first and last iteration and
# over all of them (`area`); mean costs up to the last; the end compared with the first method's.
SUMMARY = Table(
    "summary.csv",
    {
        "method": str,
        "seeds": str,
        "interval_over": str,
        "last_iteration": int,
        "start_pass@1": Estimate,
        "end_pass@1": Estimate,
        "area": Estimate,
        "elapsed_s": float | None,
        "tokens_sampled": float | None,
        "difference": Estimate,
        "improvement": Estimate,
    },
)


@dataclass(frozen=True)
class Cost:
    """How an axis names a column of `CURVES` that counts a cost.

    `units` are (the least, that much is one, its name): an axis that ends at `least` or beyond
    counts in them.
    """

    label: str
    units: tuple[tuple[float, float, str], ...] = ((0, 1, ""),)

    def unit(self, most: float) -> tuple[float, str]:
        """The size of an axis' unit and the axis' label, for costs of up to `most`."""
        size, name = [(size, name) for least, size, name in self.units if most >= least][-1]
        return size, f"{self.label} ({name})" if name else self.label


COSTS = {
    "iteration": Cost("iteration"),
    "gradient_steps": Cost("gradient steps", ((0, 1, ""), (1e4, 1e3, "thousands"))),
    "elapsed_s": Cost("training time", ((0, 1, "s"), (300, 60, "min"), (10_800, 3600, "h"))),
    "tokens_sampled": Cost(
        "sampled tokens", ((0, 1, ""), (1e4, 1e3, "thousands"), (1e6, 1e6, "millions"))
    ),
}
# Evaluations measure the training and are no part of it; training time leaves them out too.
PHASE_NAMES = [*(name for name in PHASES.values() if name != "evaluation"), "other"]
CAPTION = (
    "line: interquartile mean over seeds, at equal cost as far as every seed goes; band: 95 % "
    f"bootstrap over seeds ({NUM_SEED_RESAMPLES:,} resamples), of one seed over test problems"
)
TIMES = "(Kaplan–Meier); grey: the horizon of the restricted means"
SCORE = "test pass@1 (95 % band)"
PHASES_WIDTH_IN = 1.4  # of the methods' names
MAX_COLUMNS = 3


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
    rows, phases = read_methods(paths)
    target = default_target(rows) if target is None else target
    for path in [
        *draw_methods(rows, out / "learning_curves"),
        *draw_times(rows, target, out / "time_to_target"),
        *draw_phases(phases, out / "phases"),
        *write_tables(rows, phases, target, out),
    ]:
        print(path)


def read_methods(paths: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`CURVES` and `RUN_PHASES` of run directories and tables, methods in order of first sight.

    Raises `UserError` for what is neither, for runs of one name whose configs differ in more than
    the seed (naming the key), for runs of different tasks or evaluated differently, for a seed that
    is given twice, and for a method of a table that stands elsewhere too.
    """
    runs, rows = read_all(
        paths, CURVES, lambda one: learning_curve(one).assign(**one.identity), "method"
    )
    check_same_problems(runs)
    check_same_evaluation(runs)
    check_same_configs(runs)
    check_seeds_once(rows, "iteration")
    common_iterations(rows)
    folders = [path for path in paths if CURVES.holds(path) and RUN_PHASES.holds(path)]
    phases = RUN_PHASES.frame(
        pd.concat([*map(RUN_PHASES.read, folders), *map(run_phases, runs)], ignore_index=True)
        if folders or runs
        else []
    )
    order = {name: place for place, name in enumerate(rows["method"].unique())}

    def place(column: pd.Series) -> pd.Series:
        if column.name == "phase":
            return column.map(PHASE_NAMES.index)
        return column.map(order) if column.name == "method" else column

    return (
        rows.sort_values(["method", "seed", "iteration"], key=place, ignore_index=True),
        phases.sort_values(["method", "seed", "phase"], key=place, ignore_index=True),
    )


def run_phases(one: Run) -> pd.DataFrame:
    """`RUN_PHASES`: a row a phase that took any time, none where no iteration logged its time."""
    seconds = phase_seconds(one)[PHASE_NAMES]
    means = seconds.mean()
    frame = pd.DataFrame({"phase": means.index, "seconds": means.values})
    frame = frame.assign(
        share=frame["seconds"] / (means.sum() or 1.0), num_iterations=len(seconds), **one.identity
    )
    return RUN_PHASES.frame(frame[frame["seconds"] > 0])


def by_method(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(name): of for name, of in rows.groupby("method", sort=False)}


def at_costs(rows: pd.DataFrame, cost: str) -> pd.DataFrame | None:
    """A method's evaluations by iteration, columns ("cost", seed) and ("pass@1", seed).

    Those that every seed has, where the cost is known of all. None where it is of none: the start
    has cost nothing, which alone tells nothing.
    """
    wide = rows.assign(cost=rows[cost].astype(float)).pivot(
        index="iteration", columns="seed", values=["cost", "pass@1"]
    )
    num_common = len(wide["pass@1"].dropna())
    known = wide.dropna()
    return None if len(known) < min(2, num_common) else known


def all_at_costs(rows: pd.DataFrame, cost: str) -> dict[str, pd.DataFrame] | None:
    """`at_costs` of every method; None where one of them does not know the cost."""
    found = {name: at_costs(of, cost) for name, of in by_method(rows).items()}
    known = {name: wide for name, wide in found.items() if wide is not None}
    return known if len(known) == len(found) else None


def seed_curves(wide: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Costs and scores of every seed of `at_costs`."""
    return [(wide["cost", s].to_numpy(), wide["pass@1", s].to_numpy()) for s in wide["cost"]]


def cost_curve(rows: pd.DataFrame, cost: str) -> pd.DataFrame:
    """A method's pass@1 at equal cost, with columns cost, pass@1, pass@1_low and pass@1_high.

    Seeds take other seconds and tokens for the same iteration, and what 100 s have bought is a
    question on equal seconds. So the curve of each seed is read off at common costs, those that the
    evaluations took on average, as far as every seed goes; the band then also covers that seeds
    differ in speed. The interquartile mean of an *iteration* drawn over its mean cost would answer
    for no cost in particular. Where the seeds' costs are the same (iterations) the two agree.

    Of a method with one seed it is that run, its intervals over problems. It has no row where the
    cost is not known, or a seed ends before another begins.
    """
    wide = at_costs(rows, cost)
    if wide is None:
        return point_frame([])
    if rows["seed"].nunique() == 1:
        return points_of(rows, cost)
    curves = seed_curves(wide)
    columns = np.array([costs for costs, _ in curves])
    low, high = columns[:, 0].max(), columns[:, -1].min()
    means = columns.mean(axis=0)
    inner = means[(means > low) & (means < high)]
    places = np.unique([low, *inner, high]) if low <= high else np.array([])
    scores_NX = [np.interp(places, *curve) for curve in curves]
    return point_frame(
        [
            {"cost": place, "pass@1": iqm(scores_N)}
            for place, scores_N in zip(places, np.transpose(scores_NX), strict=True)
        ]
    )


def points_of(curve: pd.DataFrame, cost: str) -> pd.DataFrame:
    """The points of one run's learning curve whose cost is known, as `cost_curve` has them."""
    ends = {"low": "pass@1_low", "high": "pass@1_high"}
    curve = curve.assign(cost=curve[cost]).rename(columns=ends).dropna(subset="cost")
    return point_frame(curve[["cost", "pass@1", *ends.values()]])


def point_frame(rows: Any) -> pd.DataFrame:
    return Table("", {"cost": float, "pass@1": Estimate}).frame(rows)


def summarize(rows: pd.DataFrame) -> pd.DataFrame:
    """`SUMMARY`, a row a method."""
    common = common_iterations(rows)
    found: list[dict[str, Any]] = []
    baseline: pd.Series | None = None
    for name, of in by_method(common).items():
        curve = cost_curve(of, "iteration")
        last = of[of["iteration"] == of["iteration"].max()]
        areas = [
            seeds.area_under_curve(one["iteration"].to_numpy(), one["pass@1"].to_numpy())
            for _, one in of.groupby("seed")
        ]
        found.append(
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
                **compared(last["pass@1"], baseline),
            }
        )
        baseline = last["pass@1"] if baseline is None else baseline
    return SUMMARY.frame(found)


def compared(scores_N: Any, baseline_M: Any) -> dict[str, Estimate]:
    """The comparison of a method's scores with the first method's; nothing for itself."""
    if baseline_M is None:
        return {}
    return {
        "difference": iqm_difference(scores_N, baseline_M),
        "improvement": probability_of_improvement(scores_N, baseline_M),
    }


def at_equal_cost(rows: pd.DataFrame) -> pd.DataFrame:
    """`EQUAL_COST` by cost, then by method.

    A cost that some method does not know is left out, and one at which some seed ends before
    another begins.
    """
    found: list[dict[str, Any]] = []
    for cost in COSTS:
        wide = all_at_costs(rows, cost)
        curves = {name: seed_curves(of) for name, of in (wide or {}).items()}
        support = seeds.common_support(
            [costs for of in curves.values() for costs, _ in of] or [[0]]
        )
        if support is None:
            continue
        low, budget = support
        baseline: list[float] | None = None
        for name, of in curves.items():
            scores = [float(np.interp(budget, *curve)) for curve in of]
            means = [seeds.area_under_curve(*curve, low, budget) for curve in of]
            row = {"method": name, "cost": cost, "budget": budget}
            row |= {"pass@1": iqm(scores), "mean_pass@1": iqm(means)}
            found.append(row | compared(scores, baseline))
            baseline = scores if baseline is None else baseline
    return EQUAL_COST.frame(found)


def default_target(rows: pd.DataFrame) -> float:
    """The highest pass@1, in hundredths, that every method's interquartile mean reaches somewhere.

    Highest points of 0.359 and 0.328 make it 0.32.
    """
    curves = [cost_curve(of, "iteration") for of in by_method(common_iterations(rows)).values()]
    return math.floor(100 * min(curve["pass@1"].max() for curve in curves) + 1e-9) / 100


def reached(rows: pd.DataFrame, target: float) -> pd.DataFrame:
    """When every seed first showed the target, or was last seen, by cost and method.

    Columns: cost, method, time, is_reached, horizon (see `TIME_TO_TARGET`). A cost that some method
    does not know is left out.
    """
    found = pd.DataFrame(
        [
            (cost, name, *seeds.time_to_target(*curve, target))
            for cost in COSTS
            for name, wide in (all_at_costs(rows, cost) or {}).items()
            for curve in seed_curves(wide)
        ],
        columns=["cost", "method", "time", "is_reached"],
    )
    lost = found["time"].where(~found["is_reached"]).groupby(found["cost"]).transform("min")
    last = found.groupby("cost")["time"].transform("max")
    return found.assign(horizon=lost.fillna(last))


def times_to_target(rows: pd.DataFrame, target: float) -> pd.DataFrame:
    """`TIME_TO_TARGET` by cost, then by method."""
    return TIME_TO_TARGET.frame(
        [
            {
                "method": name,
                "cost": cost,
                "target": target,
                "num_seeds": len(of),
                "num_reached": of["is_reached"].sum(),
                "median": seeds.median_time(*seeds.kaplan_meier(of["time"], of["is_reached"])),
                "horizon": of["horizon"].iloc[0],
                "restricted_mean": seeds.mean(of[["time", "horizon"]].min(axis=1)),
            }
            for (cost, name), of in reached(rows, target).groupby(["cost", "method"], sort=False)
        ]
    )


def method_phases(phases: pd.DataFrame) -> pd.DataFrame:
    """Seconds of an iteration, methods by phase: means over the seeds, 0 where one has no row."""
    num_seeds = phases.groupby("method", sort=False)["seed"].nunique()
    sums = phases.pivot_table(index="method", columns="phase", values="seconds", aggfunc="sum")
    taken = [name for name in PHASE_NAMES if name in sums]
    return sums.reindex(index=num_seeds.index, columns=taken).fillna(0).div(num_seeds, axis=0)


def write_tables(rows: pd.DataFrame, phases: pd.DataFrame, target: float, out: Path) -> list[Path]:
    """Writes the evaluations of every run, the phases, and what they come to; returns the paths."""
    results = summarize(rows), at_equal_cost(rows), times_to_target(rows, target)
    seconds = method_phases(phases)
    written = [
        *CURVES.write(out, rows),
        *RUN_PHASES.write(out, phases),
        *EQUAL_COST.write(out, results[1]),
        *TIME_TO_TARGET.write(out, results[2]),
        *SUMMARY.write(out, results[0]),
        out / "summary.md",
    ]
    write_atomic(out / "summary.md", summary_markdown(rows, *results, seconds).encode())
    return [*written, write_summary(out, "learning-curves", summary_content(*results, seconds))]


def draw_methods(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A panel a cost that any of the methods knows."""
    methods = by_method(rows)
    labels = figures.method_labels(list(methods))
    for name, of in methods.items():
        count = of["seed"].nunique()
        labels[name] += f" ({count} seed{'s' if count > 1 else ''})"
    curves = {cost: {name: cost_curve(of, cost) for name, of in methods.items()} for cost in COSTS}
    known = [cost for cost in COSTS if any(len(curve) for curve in curves[cost].values())]
    with figures.grid(len(known), 2 if len(known) == 4 else MAX_COLUMNS) as (figure, axes):
        for axis, cost in zip(axes, known, strict=True):
            draw_panel(axis, cost, curves[cost], labels)
        for first in axes[:: 2 if len(known) == 4 else MAX_COLUMNS]:
            first.set_ylabel(SCORE)
        figures.same_ylim(axes)
        figures.caption(figure, CAPTION)
        figures.shared_legend(figure, *axes)
        return figures.save(figure, path)


def draw_panel(
    axis: Axes, cost: str, curves: Mapping[str, pd.DataFrame], labels: Mapping[str, str]
) -> None:
    """Curves with their bands against one cost, by method as `cost_curve` has them."""
    most = max((curve["cost"].max() for curve in curves.values() if len(curve)), default=0.0)
    size, text = COSTS[cost].unit(most)
    styles = figures.method_styles(list(curves))
    for name, curve in curves.items():
        style = styles[name] | {"label": labels[name]}
        figures.curve(axis, curve, "cost", "pass@1", style, scale=size)
    axis.set_xlabel(text)
    axis.set_xlim(left=0)
    if cost == "iteration":
        figures.whole_iterations(axis)


def draw_times(rows: pd.DataFrame, target: float, path: Path) -> list[Path]:
    """A panel a cost of the share of seeds that have reached the target by it."""
    found = reached(rows, target)
    num_costs = found["cost"].nunique()
    with figures.grid(num_costs, 2 if num_costs == 4 else MAX_COLUMNS) as (figure, axes):
        for axis, (cost, of) in zip(axes, found.groupby("cost", sort=False), strict=True):
            draw_reached(axis, COSTS[str(cost)], of)
            axis.set_ylabel(f"seeds at {target:g} (Kaplan–Meier)")
        figures.caption(figure, f"seeds that have reached pass@1 {target:g} {TIMES}")
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def draw_reached(axis: Axes, cost: Cost, found: pd.DataFrame) -> None:
    """A line a method of `reached` against one cost, up to where its last seed was seen."""
    size, text = cost.unit(found["time"].max())
    names = list(found["method"].unique())
    styles, labels = figures.method_styles(names), figures.method_labels(names)
    for index, name in enumerate(names):
        of = found[found["method"] == name]
        times, shares = seeds.kaplan_meier(of["time"], of["is_reached"])
        width = 1 + 0.3 * (len(names) - 1 - index)  # so that lines on one another show
        style = styles[name] | {"linewidth": width, "marker": "", "label": labels[name]}
        axis.step([0, *(times / size)], [0, *(1 - shares)], where="post", **style)
    axis.axvline(found["horizon"].iloc[0] / size, color="0.7", linewidth=0.6, zorder=0)
    axis.set_xlabel(text)
    axis.set_xlim(left=0)
    axis.set_ylim(-0.02, 1.02)


def draw_phases(phases: pd.DataFrame, path: Path) -> list[Path]:
    """Two panels of stacked bars, a bar a method: seconds of an iteration, and their shares."""
    if phases.empty:
        return []
    seconds = method_phases(phases)
    seconds = seconds.rename(index=figures.method_labels(list(seconds.index)))
    shares = seconds.div(seconds.sum(axis=1), axis=0)
    colors = [figures.phase_color(name, PHASE_NAMES) for name in seconds]
    with figures.panels(1, 2, PHASES_WIDTH_IN) as (figure, axes):
        for axis, frame, label in (
            (axes[0], seconds, "seconds an iteration"),
            (axes[1], shares, "share of training time"),
        ):
            frame.plot.barh(stacked=True, ax=axis, color=colors, width=0.8, legend=False)
            axis.invert_yaxis()  # the first method on top
            axis.set(xlabel=label, ylabel="")
        axes[1].set_xlim(0, 1)
        axes[1].set_yticklabels([])
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)
