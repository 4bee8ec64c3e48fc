"""How steps' advantages are spread, how many are near zero, which are critical.

python -m analysis experiments/15_advantages/advantages.py RUN_DIR... [--iterations 3,12]
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import figures, frames, options, rollout_files
from analysis.frames import OF_RUN, Run
from analysis.rollout_files import ADVANTAGES
from analysis.stats import bootstrap
from analysis.stats.bootstrap import Estimate
from analysis.tables import Table
from analysis.truth import truth_tables, truths_of_iteration
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

OF_ITERATION = OF_RUN | {"iteration": int}
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
SOURCES = {TRAINED: "advantages", MC: "MC returns", TRUTH: "true values"}  # in titles
LINE_OF_GROUP = {CORRECT: "-", INCORRECT: "--"}
DOT = {"marker": "o"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations",
        default="ends",
        metavar=options.ITERATIONS,
        help="Read these iterations of rollouts.",
    )
    options.add_numbers(
        parser,
        near_zero=(0.05, "An advantage is near zero below this |A|."),
        num_critical=(20, "List at most so many critical steps of an iteration."),
    )
    options.add_truth(parser)


def run(paths: list[Path], out: Path, truth: list[Path], **settings: Any) -> list[Path]:
    """Writes four tables, a figure and a summary; returns their paths.

    Each path is a run directory, or a directory that an earlier call wrote its tables to.
    """
    options.check_least(settings, num_critical=0)
    if not settings["near_zero"] > 0:
        raise UserError(f"--near-zero must be above 0, got {settings['near_zero']:g}")
    runs = {path: Run(path, frames.read_config(path)) for path in paths if not SPREAD.holds(path)}
    frames.check_same_tasks(list(runs.values()))
    truths = truth_tables(list(runs), truth, out)
    parts = [
        run_tables(runs[path], truths[path], **settings)
        if path in runs
        else {name: table.read(path) for name, table in TABLES.items() if table.holds(path)}
        for path in paths
    ]
    tables = {
        name: pd.concat([part[name] for part in parts if name in part], ignore_index=True)
        for name in TABLES
        if any(name in part for part in parts)
    }
    spread = tables["spread"]
    for row in spread[spread.duplicated(["run_dir", "iteration", "source", "group"])].itertuples():
        raise UserError(f"{row.run_dir}: iteration {row.iteration} was given twice")
    return [
        *(path for name, rows in tables.items() for path in TABLES[name].write(out, rows)),
        *draw(spread, tables["shares"], tables["places"], out / "advantages"),
    ]


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
        steps, values = read_steps(run.path, iteration, rollouts, truths)
        critical = critical_steps(steps, values, num_critical)
        rows["critical"] += [identity | row for row in with_texts(critical, rollouts, tokenizer)]
        advantages = {TRAINED: steps[TRAINED]}
        advantages |= {name: values_after(steps, values[name]) - values[name] for name in values}
        for source, advantage_N in advantages.items():
            every = with_advantages(steps, advantage_N, near_zero)
            for group in GROUPS:
                chosen = every if group == ALL else every[every["is_correct"] == (group == CORRECT)]
                if chosen.empty:
                    continue
                key = identity | {"source": source, "group": group}
                rows["spread"].append(key | spread(chosen, near_zero))
                at = np.quantile(chosen["advantage"], PROBABILITIES, method="inverted_cdf")
                pairs = zip(PROBABILITIES, at, strict=True)
                rows["shares"] += [key | {"probability": p, "advantage": a} for p, a in pairs]
                rows["places"] += [key | row for row in places(chosen, near_zero)]
    return {name: TABLES[name].frame(of_name) for name, of_name in rows.items() if of_name}


def read_steps(
    path: Path, iteration: int, rollouts: Sequence[Row], truths: Mapping[int, Path]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row a step of the rollouts, and V of the state before it by every source that knows any.

    `rollout` is the place among `rollouts`; values are NaN where unknown. Raises `UserError` naming
    the run for tables that are damaged, lack a column or do not fit.
    """
    saved = rollout_files.values_by_state(path, iteration)
    further = rollout_files.predictions_by_state(path, iteration)
    states = truths_of_iteration(truths, iteration, rollouts)
    steps: list[Row] = []
    values: list[Row] = []
    for place, row in enumerate(rollouts):
        about = {name: row[name] for name in ("problem_id", "rollout_index", "reward")}
        about |= {"rollout": place, "num_steps": len(row["step_starts"])}
        about["is_correct"] = row["reward"] > CORRECT_ABOVE
        for step, start in enumerate(row["step_starts"]):
            steps.append(about | {"step_index": step, TRAINED: row[ADVANTAGES][step]})
            key = row["problem_id"], row["rollout_index"], step
            if saved and key not in saved:
                raise UserError(
                    f"{path}: iteration {iteration}: its values lack the state {key} of its "
                    "rollouts"
                )
            own = saved.get(key, {})
            truth = states.get((row["problem_id"], tuple(row["response_ids"][:start])))
            known = {MC: np.mean(own["returns_K"]) if own.get("returns_K") else None}
            known[CRITIC] = own.get("critic_value")
            for name, of_name in further.items():
                column = f"values/{name}" if name in OURS else name
                known[column] = of_name.get(key, {}).get("value")
            values.append(known | {TRUTH: None if truth is None else truth.value})
    # A critic that has diverged gives infinite values.
    finite = pd.DataFrame(values, dtype=float).replace([np.inf, -np.inf], np.nan)
    return pd.DataFrame(steps), finite.dropna(axis="columns", how="all")


def values_after(steps: pd.DataFrame, values_N: pd.Series) -> pd.Series:
    """V of the state after each step: of the next step's, and after the last one the reward."""
    is_last_N = steps["step_index"] == steps["num_steps"] - 1
    return values_N.groupby(steps["rollout"]).shift(-1).mask(is_last_N, steps["reward"])


def with_advantages(steps: pd.DataFrame, advantage_N: pd.Series, near_zero: float) -> pd.DataFrame:
    """The steps whose advantage is known, with its `size` |A| and the shares of the critical step.

    `critical` is 1 for the largest |A| of a rollout, divided among those that tie, `even` is 1/S.
    Both are NaN in rollouts with a step of unknown advantage and in those without a critical step:
    (0.1, −0.4, 0.4) gives (0, ½, ½); (0, 0.01) of a limit of 0.05 and (0.1, NaN) give NaN.
    """
    size_N = advantage_N.abs()
    of_rollout = size_N.groupby(steps["rollout"])
    is_known_N = of_rollout.transform("count") == steps["num_steps"]
    largest_N = of_rollout.transform("max").where(is_known_N)
    is_largest_N = (size_N >= (1 - TIE) * largest_N) & (largest_N >= near_zero)
    num_largest_N = is_largest_N.groupby(steps["rollout"]).transform("sum")
    critical_N = is_largest_N / num_largest_N.where(num_largest_N > 0)
    even_N = (1 / steps["num_steps"]).where(critical_N.notna())
    steps = steps.assign(advantage=advantage_N, size=size_N, critical=critical_N, even=even_N)
    return steps.dropna(subset="advantage")


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
        "near_zero": over_problems(steps["size"] < near_zero, steps["problem_id"]),
        "zero": (steps["size"] == 0).mean(),
        "num_critical_rollouts": len(shares),
        "top_share": over_problems(shares, of_rollout["problem_id"].first()),
        "even_share": of_rollout["even"].first().mean(),
    }


def over_problems(values_N: pd.Series, problem_N: pd.Series) -> Estimate | None:
    """The mean with its interval over resampled problems; None of nothing."""
    if values_N.empty:
        return None
    return bootstrap.bootstrap_sums(
        {"one": np.ones(len(values_N)), "value": values_N.to_numpy(dtype=float)},
        problem_N.to_numpy(),
        {"mean": bootstrap.mean_of("value")},
        np.random.default_rng(bootstrap.BOOTSTRAP_SEED),
        num_resamples=2000,
        level=bootstrap.LEVEL,
    )["mean"]


def places(steps: pd.DataFrame, near_zero: float) -> Iterator[Row]:
    """The rows of `PLACES`. Of S = 4 steps the bins are 0, 1, 3, 4 by `relative`."""
    num_critical = steps["critical"].sum()
    bins = {
        "start": steps["step_index"],
        "end": steps["num_steps"] - 1 - steps["step_index"],
        "relative": (NUM_BINS * (steps["step_index"] + 0.5) / steps["num_steps"]).astype(int),
    }
    for axis, bin_N in bins.items():
        for index, here in steps.groupby(bin_N):
            shares = here[["critical", "even"]].sum() / (num_critical or np.nan)
            yield {
                "axis": axis,
                "bin": index,
                "num_steps": len(here),
                "mean": here["advantage"].mean(),
                "mean_abs": here["size"].mean(),
                "near_zero": (here["size"] < near_zero).mean(),
                **shares,
            }


def critical_steps(steps: pd.DataFrame, values: pd.DataFrame, num_steps: int) -> pd.DataFrame:
    """The largest changes of value of an iteration, at most one a problem, the largest first.

    None of a run without values. Of equal changes the first in the table of rollouts counts.
    """
    if values.empty:
        return steps.iloc[:0]
    source = values.columns[0]
    steps = steps.assign(
        source=source, value_before=values[source], value_after=values_after(steps, values[source])
    )
    if TRUTH in values:
        after_N = values_after(steps, values[TRUTH])
        steps = steps.assign(true_before=values[TRUTH], true_after=after_N)
    sizes_N = (steps["value_after"] - steps["value_before"]).abs()
    changed = steps.loc[sizes_N[sizes_N > 0].sort_values(ascending=False, kind="stable").index]
    return changed.drop_duplicates("problem_id").head(num_steps)


def with_texts(steps: pd.DataFrame, rollouts: Sequence[Row], tokenizer: Any) -> Iterator[Row]:
    """The rows of `CRITICAL`, with their texts where a tokenizer tells them."""
    from vineppo.segment import token_texts

    for step in steps.to_dict("records"):
        row = {name: value for name, value in step.items() if name in CRITICAL.columns}
        if tokenizer is not None:
            rollout = rollouts[step["rollout"]]
            pieces = token_texts(tokenizer, rollout["response_ids"])
            first, end = [*rollout["step_starts"], len(pieces)][step["step_index"] :][:2]
            row["prompt"] = tokenizer.decode(rollout["prompt_ids"], skip_special_tokens=False)
            row["step_text"] = "".join(pieces[first:end])
        yield row


def draw(
    spread: pd.DataFrame, shares: pd.DataFrame, places: pd.DataFrame, path: Path
) -> list[Path]:
    """A row of panels a run: how advantages are spread, and where in the response.

    Where none is near zero, or critical, there is no panel of that.
    """
    runs = list(spread.groupby("run_dir", sort=False))
    iterations = sorted(spread["iteration"].unique())
    colors = figures.in_order(len(iterations))
    looks: dict[int, dict[str, Any]] = {
        name: {"color": color} for name, color in zip(iterations, colors, strict=True)
    }
    trained = places[places["source"] == TRAINED]
    shown = [name for name, of in (("near_zero", trained), ("critical", places)) if of[name].any()]
    names = ["advantage", "mean", *shown]
    with figures.panels(len(runs), len(names)) as (figure, axes):
        for index, (run_dir, of_run) in enumerate(runs):
            of_row = axes[len(names) * index : len(names) * (index + 1)]
            panels = dict(zip(names, of_row, strict=True))
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
    axes: Mapping[str, Axes], shares: pd.DataFrame, places: pd.DataFrame, style: dict[str, Any]
) -> None:
    """One colour: cumulative shares, means by outcome, shares near zero, critical steps if any."""
    trained = _of(shares, TRAINED)
    axes["advantage"].step(
        trained["advantage"], 100 * trained["probability"], where="post", **style
    )
    places = places[places["axis"] == "relative"]
    percent = {name: 100 * places[name] for name in ("near_zero", "critical", "even")}
    places = places.assign(middle=100 * (places["bin"] + 0.5) / NUM_BINS, **percent)

    def line(axis: Axes, column: str, look: dict[str, Any], source: str, group: str = ALL) -> None:
        figures.curve(axis, _of(places, source, group), "middle", column, style | look, ends="")

    for group, dashes in LINE_OF_GROUP.items():
        line(axes["mean"], "mean", DOT | {"linestyle": dashes}, TRAINED, group)
    if "near_zero" in axes:
        line(axes["near_zero"], "near_zero", DOT, TRAINED)
    source = critical_source(places["source"])
    if "critical" in axes:
        axis = axes["critical"]
        line(axis, "critical", DOT, source)
        if source != TRUTH:
            line(axis, "critical", DOT | {"linestyle": "-."}, TRUTH)
        line(axis, "even", {"linestyle": ":", "linewidth": 0.8}, source)


def finish_run(axes: Mapping[str, Axes], spread: pd.DataFrame) -> None:
    """Draws all that does not depend on the iteration."""
    last = spread[spread["iteration"] == spread["iteration"].iloc[-1]]
    source = critical_source(last["source"])
    row = _of(last, source).iloc[0]
    first = axes["advantage"]
    first.set(xlabel="advantage of a step", ylabel="steps with at most it (%)", ylim=(0, 100))
    first.set_title(f"{figures.method_label(row['method'])}, seed {row['seed']}")
    for axis in list(axes.values())[1:]:
        axis.set(xlabel="part of the response (%)", xlim=(0, 100))
    axes["mean"].set_ylabel("mean advantage")
    axes["mean"].axhline(0, color="0.7", linewidth=0.6, zorder=0)
    if "near_zero" in axes:
        text = f"|A| < {row['near_zero_below']:g} (% of steps)"
        axes["near_zero"].set(ylabel=text, ylim=(0, 100))
    if "critical" in axes:
        title = f"by {SOURCES.get(source, figures.predictor_label(source))}"
        axes["critical"].set(ylabel="critical steps (%)", ylim=(0, None), title=title)


def critical_source(sources: pd.Series) -> str:
    """The values that a run had; else the truth, or its advantages without a truth."""
    own = [source for source in sources.unique() if source not in (TRUTH, TRAINED)]
    return own[0] if own else TRUTH if TRUTH in set(sources) else TRAINED


def _of(rows: pd.DataFrame, source: str, group: str = ALL) -> pd.DataFrame:
    return rows[(rows["source"] == source) & (rows["group"] == group)]
