"""`advantages`: how steps' advantages are spread, how many are near zero, which are critical."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import figures, frames, rollout_files
from analysis.frames import IDENTITY, Run
from analysis.rollout_files import ADVANTAGES
from analysis.rollout_truths import truth_tables, truths_of_iteration
from analysis.stats import bootstrap
from analysis.stats.bootstrap import Estimate
from analysis.summary import row_content, write_summary
from analysis.tables import Table
from vineppo.errors import UserError

# Where an advantage comes from: the credit estimator itself, or V(s_{i+1}) − V(s_i) with the reward
# as the last value, V being Monte-Carlo, the critic's, another predictor's of the run by its name,
# or the ground truth.
TRAINED, MC, CRITIC, TRUTH = OURS = ("trained", "mc", "critic", "truth")
ALL, CORRECT, INCORRECT = GROUPS = ("all", "correct", "incorrect")
CORRECT_ABOVE = 0.5  # of the reward, as in a run's value diagnostics
# Advantages of a rollout within this share of its largest are as large: those of the group
# estimators are one number, but for rounding and for the KL that may be shaped into the reward.
TIE = 0.01
NUM_BINS = 5  # of the axis "relative"
PROBABILITIES = tuple(i / 50 for i in range(51))

OF_ITERATION = {**dict(zip(IDENTITY, (str, str, int), strict=True)), "iteration": int}
# Which steps: of one source and one group of rollouts.
OF_STEPS = OF_ITERATION | {"source": str, "group": str}
# `near_zero` is the share of steps with |A| below `near_zero_below`, `zero` that of exact zeros.
# Over the `num_critical_rollouts` that have a critical step, `top_share` is the mean share of a
# rollout's Σ|A| that its largest step carries, and `even_share` the mean of 1/S, what it would be
# if all steps were alike. Intervals are over problems.
SPREAD = Table(
    "advantages.csv",
    OF_STEPS
    | {"num_rollouts": int, "num_steps": int, "mean": float, "std": float, "mean_abs": float}
    | {"near_zero_below": float, "near_zero": Estimate, "zero": float}
    | {"num_critical_rollouts": int, "top_share": Estimate, "even_share": float | None},
)
# `probability` of the steps have at most this `advantage`, the least that so many have.
SHARES = Table("advantages_quantiles.csv", OF_STEPS | {"probability": float, "advantage": float})
# The steps at one place of their responses. `bin` counts steps from the start or the end from 0, or
# fifths of the response (`relative`: a step's middle, (i + ½)/S). `critical` is the share of
# critical steps that lie here and `even` what it would be if each of a rollout's steps were as
# likely; empty without critical steps.
PLACES = Table(
    "advantages_by_place.csv",
    OF_STEPS
    | {"axis": str, "bin": int, "num_steps": int, "mean": float, "mean_abs": float}
    | {"near_zero": float, "critical": float | None, "even": float | None},
)
# The step of a rollout at which |ΔV| is largest, by the values of `source`: those that the run had
# while training, else the true ones. The texts are empty where no tokenizer is on this machine,
# `true_before` and `true_after` where the ground truth is not known.
CRITICAL = Table(
    "critical_steps.csv",
    OF_ITERATION
    | {"source": str, "problem_id": str, "rollout_index": int, "step_index": int}
    | {"num_steps": int, "reward": float, "value_before": float, "value_after": float}
    | {"true_before": float | None, "true_after": float | None}
    | {"prompt": str | None, "step_text": str | None},
)
# By what parameters name them; the last is absent of runs without values.
TABLES = {"spread": SPREAD, "shares": SHARES, "places": PLACES, "critical": CRITICAL}

Row = dict[str, Any]
Arrays = Sequence[np.ndarray]  # one a rollout
PANELS = 4
LINE_OF_GROUP = {CORRECT: "-", INCORRECT: "--"}
DOT = {"marker": "o"}


def add_options(parser: argparse.ArgumentParser) -> None:
    for option, kind, default, metavar, text in (
        ("--iterations", str, "ends", "all|last|ends|spaced:N|N,N…", "of those with rollouts"),
        ("--near-zero", float, 0.05, "A", "below it |A| is near zero"),
        ("--num-critical", int, 20, "N", "critical steps of an iteration"),
        ("--truth", Path, None, "DIR", "the --out of ground-truth; without: OUT, then the runs'"),
    ):
        help_text = text if default is None else f"{text}; default: {default}"
        parser.add_argument(option, type=kind, default=default, metavar=metavar, help=help_text)


def run(paths: list[Path], out: Path, truth: Path | None, **options: Any) -> None:
    """Writes four tables, a figure and a summary; prints their paths.

    Each path is a run directory, or a directory that an earlier call wrote its tables to.
    """
    if not options["near_zero"] > 0 or options["num_critical"] < 0:
        got = f"{options['near_zero']:g} and {options['num_critical']}"
        raise UserError(f"--near-zero must be above 0 and --num-critical at least 0, got {got}")
    runs = {path: Run(path, frames.read_config(path)) for path in paths if not SPREAD.holds(path)}
    every, difference = list(runs.values()), "are of different tasks:"
    frames.check_alike(every, lambda one_run: {"task": one_run.config.get("task", {})}, difference)
    truths = dict(zip(runs, truth_tables(list(runs), [truth] if truth else [], out), strict=True))
    parts = [
        run_tables(runs[path], truths[path], **options)
        if path in runs
        else {name: table.read(path) for name, table in TABLES.items() if table.holds(path)}
        for path in paths
    ]
    tables = {
        name: pd.concat(parts_of_name, ignore_index=True)
        for name in TABLES
        if (parts_of_name := [part[name] for part in parts if name in part])
    }
    spread = tables["spread"]
    for row in spread[spread.duplicated(["run_dir", "iteration", "source", "group"])].itertuples():
        raise UserError(f"{row.run_dir}: iteration {row.iteration} was given twice")
    written = [path for name, frame in tables.items() for path in TABLES[name].write(out, frame)]
    written += draw(spread, tables["shares"], tables["places"], out / "advantages")
    for path in [*written, write_summary(out, "advantages", summary_content(spread))]:
        print(path)


def run_tables(
    run: Run, truths: Mapping[int, Path], iterations: str, near_zero: float, num_critical: int
) -> dict[str, pd.DataFrame]:
    """The tables of one run directory; `truths` are its ground-truth tables by checkpoint."""
    saved = frames.existing_run_dir(run.path).iterations("rollouts")
    if not saved:
        raise UserError(f"{run.path} has no rollouts yet")
    tokenizer, missing = rollout_files.find_tokenizer(run), f"{run.path} has no rollouts"
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    for iteration in frames.choose_iterations(saved, iterations, "--iterations", missing):
        identity = run.identity | {"iteration": iteration}
        rollouts = rollout_files.read_rollouts(run.path, iteration, ("prompt_ids", ADVANTAGES))
        values = read_values(run.path, iteration, rollouts, truths)
        critical = critical_steps(rollouts, values, tokenizer, num_critical)
        rows["critical"] += [identity | row for row in critical]
        advantages = {TRAINED: [np.array(row[ADVANTAGES], dtype=float) for row in rollouts]}
        advantages |= {source: list(map(np.diff, arrays)) for source, arrays in values.items()}
        for source, arrays in advantages.items():
            every = flatten(rollouts, arrays, near_zero)
            for group in GROUPS:
                steps = every if group == ALL else every[every["is_correct"] == (group == CORRECT)]
                if steps.empty:
                    continue
                key = identity | {"source": source, "group": group}
                rows["spread"].append(key | spread(steps, near_zero))
                at = np.quantile(steps["advantage"], PROBABILITIES, method="inverted_cdf")
                pairs = zip(PROBABILITIES, at, strict=True)
                rows["shares"] += [key | {"probability": p, "advantage": of_p} for p, of_p in pairs]
                rows["places"] += [key | row for row in places(steps, near_zero)]
    return {name: TABLES[name].frame(identity) for name, identity in rows.items() if identity}


def read_values(
    path: Path, iteration: int, rollouts: Sequence[Row], truths: Mapping[int, Path]
) -> dict[str, list[np.ndarray]]:
    """By source for each rollout the values of its S states and, as the last, its reward: S + 1
    numbers, NaN where unknown. A source that knows nothing is not there.

    Raises `UserError` naming the run for tables that are damaged, lack a column or do not fit.
    """
    saved = rollout_files.values_by_state(path, iteration)
    further = rollout_files.predictions_by_state(path, iteration)
    states = truths_of_iteration(dict(truths), iteration, list(rollouts))
    values_by_source: dict[str, list[np.ndarray]] = {}
    for row in rollouts:
        ids, starts = tuple(row["response_ids"]), row["step_starts"]
        keys = [(row["problem_id"], row["rollout_index"], step) for step in range(len(starts))]
        for key in keys:
            if saved and key not in saved:
                place = f"{path}: iteration {iteration}"
                raise UserError(f"{place}: its values lack the state {key} of its rollouts")
        own = [saved.get(key, {}) for key in keys]
        columns = {
            MC: [
                np.mean(values_S["returns_K"]) if values_S.get("returns_K") else None
                for values_S in own
            ],
            CRITIC: [values_S.get("critic_value") for values_S in own],
        }
        for name, of_name in further.items():
            values = [of_name.get(key, {}).get("value") for key in keys]
            columns[f"values/{name}" if name in OURS else name] = values
        passed = [states.get((row["problem_id"], ids[:start])) for start in starts]
        columns[TRUTH] = [None if state is None else state.value for state in passed]
        for source, values in columns.items():
            numbers = np.array([*values, row["reward"]], dtype=float)
            # A critic that has diverged gives infinite ones.
            values_by_source.setdefault(source, []).append(
                np.where(np.isfinite(numbers), numbers, np.nan)
            )
    known = {
        name: [np.isfinite(values[:-1]).any() for values in values_S]
        for name, values_S in values_by_source.items()
    }
    return {name: values_S for name, values_S in values_by_source.items() if any(known[name])}


def flatten(rollouts: Sequence[Row], advantages: Arrays, near_zero: float) -> pd.DataFrame:
    """A row a step whose advantage is known, of rollouts with `advantages` of shape [S] each.

    `critical` are the shares of a rollout's critical step, `even` 1/S; both are NaN in rollouts
    with a step of unknown advantage, and in those without a critical step.
    """
    columns = ["problem", "rollout", "step", "num_steps", "is_correct", "advantage", "critical"]
    rows = [
        (row["problem_id"], number, step, len(of_S), row["reward"] > CORRECT_ABOVE, *numbers)
        for number, (row, of_S) in enumerate(zip(rollouts, advantages, strict=True))
        for step, numbers in enumerate(zip(of_S, critical_shares(of_S, near_zero), strict=True))
    ]
    steps = pd.DataFrame(rows, columns=columns).dropna(subset="advantage")
    even = (1 / steps["num_steps"]).where(steps["critical"].notna())
    return steps.assign(even=even, size=steps["advantage"].abs())


def critical_shares(advantages_S: np.ndarray, near_zero: float) -> np.ndarray:
    """1 for the step of the largest |A|, divided among those that tie; NaN where none is.

    (0.1, −0.4, 0.4) gives (0, ½, ½); (0, 0.01) of a limit of 0.05 and (0.1, NaN) give NaN.
    """
    sizes_S = np.abs(advantages_S)
    largest = sizes_S.max()  # NaN of a NaN
    if not largest >= near_zero:
        return np.full(len(sizes_S), np.nan)
    is_largest_S = sizes_S >= (1 - TIE) * largest
    return is_largest_S / is_largest_S.sum()


def spread(steps: pd.DataFrame, near_zero: float) -> dict[str, Any]:
    """The numbers of a row of `SPREAD`."""
    of_rollout = steps.dropna(subset="critical").groupby("rollout")
    shares = of_rollout["size"].max() / of_rollout["size"].sum()
    return {
        "num_rollouts": steps["rollout"].nunique(),
        "num_steps": len(steps),
        "mean": steps["advantage"].mean(),
        "std": steps["advantage"].std(ddof=0),
        "mean_abs": steps["size"].mean(),
        "near_zero_below": near_zero,
        "near_zero": over_problems(steps["size"] < near_zero, steps["problem"]),
        "zero": (steps["size"] == 0).mean(),
        "num_critical_rollouts": len(shares),
        "top_share": over_problems(shares, of_rollout["problem"].first()),
        "even_share": of_rollout["even"].first().mean(),
    }


def over_problems(values_N: pd.Series, problem_N: pd.Series) -> Estimate | None:
    """The mean with its interval over resampled problems; None of nothing."""
    if values_N.empty:
        return None
    return bootstrap.bootstrap_sums(
        bootstrap.mean_terms(values_N.to_numpy(dtype=float)),
        problem_N.to_numpy(),
        {"mean": bootstrap.mean},
        np.random.default_rng(bootstrap.BOOTSTRAP_SEED),
        num_resamples=2000,
        level=bootstrap.LEVEL,
    )["mean"]


def places(steps: pd.DataFrame, near_zero: float) -> Iterator[Row]:
    """The rows of `PLACES`. Of S = 4 steps the bins are 0, 1, 3, 4 by `relative`."""
    num_critical = steps["critical"].sum()
    bins = {
        "start": steps["step"],
        "end": steps["num_steps"] - 1 - steps["step"],
        "relative": (NUM_BINS * (steps["step"] + 0.5) / steps["num_steps"]).astype(int),
    }
    for axis, bin_N in bins.items():
        for index, here in steps.groupby(bin_N):
            yield {
                "axis": axis,
                "bin": index,
                "num_steps": len(here),
                "mean": here["advantage"].mean(),
                "mean_abs": here["size"].mean(),
                "near_zero": (here["size"] < near_zero).mean(),
                **{
                    kind: here[kind].sum() / (num_critical or np.nan)
                    for kind in ("critical", "even")
                },
            }


def critical_steps(
    rollouts: Sequence[Row], values: Mapping[str, Arrays], tokenizer: Any, num_steps: int
) -> list[Row]:
    """The largest changes of value of an iteration, at most one a problem, the largest first.

    None of a run without values. Of equal changes the first in the table of rollouts counts.
    """
    from vineppo.segment.token_texts import backend_token_texts

    if not values:
        return []
    source = next(iter(values))
    sizes = [np.nan_to_num(np.abs(np.diff(values_S))) for values_S in values[source]]
    largest = [(-float(size_S.max()), n, int(size_S.argmax())) for n, size_S in enumerate(sizes)]
    chosen: dict[str, Row] = {}
    for size, place, step in sorted(largest):
        row = rollouts[place]
        if size == 0 or len(chosen) == num_steps or row["problem_id"] in chosen:
            continue
        ends = values[source][place][step : step + 2]
        truths = values[TRUTH][place][step : step + 2] if TRUTH in values else (None, None)
        chosen[row["problem_id"]] = {
            "source": source,
            **{name: row[name] for name in ("problem_id", "rollout_index", "reward")},
            "step_index": step,
            "num_steps": len(row["step_starts"]),
            **dict(zip(("value_before", "value_after"), ends, strict=True)),
            **dict(zip(("true_before", "true_after"), truths, strict=True)),
        }
        if tokenizer is not None:
            pieces = backend_token_texts(tokenizer, row["response_ids"])
            first, end = [*row["step_starts"], len(pieces)][step : step + 2]
            prompt = tokenizer.decode(row["prompt_ids"], skip_special_tokens=False)
            texts = {"prompt": prompt, "step_text": "".join(pieces[first:end])}
            chosen[row["problem_id"]] |= texts
    return list(chosen.values())


def summary_content(rows: pd.DataFrame) -> dict[str, Any]:
    """By run directory, iteration and source, over all rollouts."""
    by_run: dict[str, Any] = {}
    names = ("num_steps", "mean_abs", "zero", "near_zero", "top_share", "even_share")
    for row in rows[rows["group"] == ALL].to_dict("records"):
        content = {name: number for name, number in row_content(row).items() if name in names}
        of_run = by_run.setdefault(row["run_dir"], {})
        of_run.setdefault(f"iter_{row['iteration']:06d}", {})[row["source"]] = content
    return by_run


def draw(
    spread: pd.DataFrame, shares: pd.DataFrame, places: pd.DataFrame, path: Path
) -> list[Path]:
    """A row of panels a run: how advantages are spread, and where in the response."""
    shown, looks = list(spread.groupby("run_dir", sort=False)), {}
    for place, iteration in enumerate(sorted(spread["iteration"].unique())):
        looks[iteration] = figures.line_style(place)
    with figures.panels(len(shown), PANELS) as (figure, axes):
        for index, (run_dir, of_run) in enumerate(shown):
            panels = axes[PANELS * index : PANELS * (index + 1)]
            for iteration in of_run["iteration"].unique():
                here = f"run_dir == {run_dir!r} and iteration == {iteration}"
                draw_iteration(panels, shares.query(here), places.query(here), looks[iteration])
            finish_run(panels, of_run)
        for iteration, look in looks.items():
            axes[0].plot([], [], label=f"iteration {iteration}", **DOT | look)
        kinds = LINE_OF_GROUP | {"if all steps were alike": ":"}
        if TRUTH in set(spread["source"]):
            kinds["by the true values"] = "-."
        for label, line in kinds.items():
            axes[0].plot([], [], color="0.4", linestyle=line, label=label)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def draw_iteration(
    axes: Sequence[Axes], shares: pd.DataFrame, places: pd.DataFrame, style: dict[str, Any]
) -> None:
    """One colour: cumulative shares, means by outcome, shares near zero, critical steps."""
    trained = _of(shares, TRAINED)
    axes[0].step(trained["advantage"], 100 * trained["probability"], where="post", **style)
    places = places[places["axis"] == "relative"]
    percent = {name: 100 * places[name] for name in ("near_zero", "critical", "even")}
    places = places.assign(middle=100 * (places["bin"] + 0.5) / NUM_BINS, **percent)

    def line(axis: Axes, column: str, look: dict[str, Any], source: str, group: str = ALL) -> None:
        figures.curve(axis, _of(places, source, group), "middle", column, style | look, ends="")

    for group, dashes in LINE_OF_GROUP.items():
        line(axes[1], "mean", DOT | {"linestyle": dashes}, TRAINED, group)
    line(axes[2], "near_zero", DOT, TRAINED)
    source = critical_source(places["source"])
    line(axes[3], "critical", DOT, source)
    if source != TRUTH:
        line(axes[3], "critical", DOT | {"linestyle": "-."}, TRUTH)
    line(axes[3], "even", {"linestyle": ":", "linewidth": 0.8}, source)


def finish_run(axes: Sequence[Axes], spread: pd.DataFrame) -> None:
    """What does not depend on the iteration, and the numbers of the last one in the titles."""
    last = spread[spread["iteration"] == spread["iteration"].iloc[-1]]
    source = critical_source(last["source"])
    row = _of(last, source).iloc[0]
    axes[0].set(xlabel="advantage of a step", ylabel="steps with at most it (%)", ylim=(0, 100))
    axes[0].set_title(f"{row['method']}, seed {row['seed']}")
    for axis in axes[1:]:
        axis.set(xlabel="part of the response (%)", xlim=(0, 100))
    axes[1].set_ylabel("mean advantage")
    axes[1].axhline(0, color="0.7", linewidth=0.6, zorder=0)
    axes[2].set(ylabel=f"|A| < {row['near_zero_below']:g} (% of steps)", ylim=(0, 100))
    axes[3].set(ylabel="critical steps (%)", ylim=(0, None))
    if not pd.isna(row["top_share"]):
        top, even = 100 * row["top_share"], 100 * row["even_share"]
        text = f"{top:.0f} % of a rollout's sum (alike: {even:.0f} %)"
        axes[3].set_title(f"by {source}: the largest carries\n{text}")


def critical_source(sources: pd.Series) -> str:
    """Of the values a run had; without any of the truth, else of its advantages."""
    own = [source for source in sources.unique() if source not in (TRUTH, TRAINED)]
    return own[0] if own else TRUTH if TRUTH in set(sources) else TRAINED


def _of(rows: pd.DataFrame, source: str, group: str = ALL) -> pd.DataFrame:
    return rows[(rows["source"] == source) & (rows["group"] == group)]
