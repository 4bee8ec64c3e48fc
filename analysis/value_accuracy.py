"""`value-accuracy`: what a value estimate is worth, measured against many fresh continuations.

Every state that `ground-truth` sampled gets the values that the predictors give it. t = c/m is the
measured truth of a state, v a prediction; what each metric means is told in docs/analysis.md.
"""

import argparse
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.progress import track

from analysis.frames import Run, check_alike, check_same_configs, read_config
from analysis.rollout_files import predictions_by_state, read_rollouts, values_by_state
from analysis.run_tables import check_counts, read_rows
from analysis.stats import calibration
from analysis.stats.bootstrap import Estimate
from analysis.stats.value_scores import Cell, Settings, differences, error_scores, scores
from analysis.summary import write_summary
from analysis.tables import Table, estimate
from analysis.truth import ANALYSIS, TruthState, check_names, find_truth, read_truth
from vineppo.errors import UserError
from vineppo.run_dir.files import strict_json
from vineppo.run_dir.tables import write_parquet

NAME, STEM = "value-accuracy", "value_accuracy"
# What a predictor says of a state of a run, and what `num_samples` fresh returns say. `task` is a
# digest of the run's. `checkpoint` is the policy of the truth, `rollout_iteration` the iteration of
# the rollout, whose own `reward` is given. `position` is the share of the response before the
# state, 0 of the query. `num_returns` is how many returns the prediction averages, empty for none.
STATES_NAME = f"{STEM}_states.parquet"
STATES = pa.schema(
    dict.fromkeys(("run_dir", "method", "task", "problem_id", "predictor"), pa.string())
    | dict.fromkeys(("seed", "checkpoint", "rollout_iteration"), pa.int32())
    | dict.fromkeys(("rollout_index", "step_index", "num_steps"), pa.int32())
    | dict.fromkeys(("num_samples", "num_correct", "num_returns"), pa.int32())
    | dict.fromkeys(("position", "reward", "prediction"), pa.float64())
)
STATE = ["seed", "problem_id", "rollout_index", "step_index"]
# Which states a number is of: those of the `seeds` of a method at a checkpoint. `is_own_policy` is
# 0 where the training's predictions are of the policy one update before that of the truth.
OF_STATES: dict[str, Any] = {"method": str, "seeds": str, "checkpoint": int}
OF_STATES |= {"is_own_policy": int, "predictor": str}
# One metric of a predictor on a stratum of the states: all step boundaries, the queries, or, of all
# seeds together, the boundaries by position, outcome or true value. What is undefined has no row.
SCORES = Table(
    f"{STEM}.csv",
    OF_STATES
    | {"stratum": str, "metric": str, "value": Estimate, "num_states": int, "num_problems": int},
)
# The truth where a predictor says `prediction`, on the step boundaries of all seeds together: a
# point of the CORP curve with its confidence band ("curve"), where that curve would lie if every
# prediction were exact ("exact"), or the means of a tenth of [0, 1] ("bin").
RELIABILITY = Table(
    f"{STEM}_reliability.csv",
    OF_STATES | {"kind": str, "prediction": float, "truth": Estimate, "num_states": int | None},
)
CURVE, EXACT, BIN = "curve", "exact", "bin"
NUM_POINTS = 41  # of the curve of a predictor with more distinct values
NUM_BINS = 10
CRITIC, MC, MC_TRAIN = "critic", "mc", "mc_train"
FREE = ("group_mean", "group_mean_others", "constant")  # from the rewards of the iteration

BOUNDARIES, QUERY = "boundaries", "query"
# Of the strata by true value 0 and 1 are apart, where a state is decided as far as m returns tell.
# They are made by t, the very number that errors are taken from: among states of a high t its noise
# was upwards more often than not, so that even exact values look too low there and too high where t
# is low, by about that noise, √(p(1 − p)/m). Position and outcome have no such flaw.
FIFTHS = (0.2, 0.4, 0.6, 0.8)
VALUE_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)
STRATA = {
    "position": [f"[{low:g}, {high:g})" for low, high in pairwise((0, *FIFTHS, 1))],
    "outcome": ["incorrect", "correct"],
    "value": [
        "0",
        *(f"({low:g}, {high:g}{']' if high < 1 else ')'}" for low, high in pairwise(VALUE_EDGES)),
        "1",
    ],
}
METRICS_OF_STRATA = ("prediction_mean", "truth_mean", "bias", "mae", "mae_floor", "mse_corrected")
SUMMARY_METRICS = (
    "bias", "mae", "mae_floor", "mse_corrected", "equivalent_draws", "accuracy",
    "pearson_disattenuated", "pearson_within_disattenuated", "brier_miscalibration",
)  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What to predict with: `predictors` by name, or None for all that a run has.

    `continuations` are then the K of MC, to which that of the run's training is added.
    """

    predictors: tuple[str, ...] | None = None
    continuations: tuple[int, ...] = (1, 3, 9)


def add_options(parser: argparse.ArgumentParser) -> None:
    for option, default, metavar, text in (
        ("--truth", None, "DIR", "the --out of ground-truth; default: OUT, then where it goes"),
        ("--predictors", None, "NAME,…", "mc_9, mc_train_9, critic, …; default: all of a run"),
        ("--continuations", "1,3,9", "K,…", "the K of mc_K and mc_train_K, besides the training's"),
    ):
        parser.add_argument(option, default=default, metavar=metavar, help=text)
    for name, text in (
        ("threshold", "accuracy: |error| at most this"),
        ("level", "of intervals"),
        ("num_resamples", "of problems, by interval"),
        ("num_refits", "the same where each is ranked or fitted anew: Spearman, scores, bands"),
        ("seed", "which problems are resampled"),
    ):
        default = getattr(Settings, name)
        option, text = f"--{name.replace('_', '-')}", f"{text}; default: {default}"
        parser.add_argument(option, type=type(default), default=default, help=text)


def run(
    paths: list[Path],
    out: Path,
    truth: str | None,
    predictors: str | None,
    continuations: str,
    **settings: Any,
) -> None:
    """Writes three tables, the figures and a summary; prints their paths.

    Each path is a run directory whose ground truth has been made, or a directory whose
    value_accuracy_states.parquet is scored again.
    """
    # The figures need this module's tables and names.
    from analysis import value_figures

    chosen = Settings(**settings)
    given = None if truth is None else Path(truth)
    states = read_states(paths, out, given, parse_wanted(predictors, continuations))
    scores = score_states(states, chosen)
    curves = reliability(states, chosen)
    write_states(out / STATES_NAME, states)
    written = [out / STATES_NAME, *SCORES.write(out, scores), *RELIABILITY.write(out, curves)]
    if not curves.empty:
        written += [
            *value_figures.draw_overview(scores, out / STEM),
            *value_figures.draw_scatter(states, out / f"{STEM}_scatter"),
            *value_figures.draw_reliability(curves, out / f"{STEM}_reliability"),
            *value_figures.draw_strata(scores, out / f"{STEM}_strata"),
        ]
    for path in [*written, write_summary(out, NAME, summary_content(scores, chosen))]:
        print(path)


def parse_wanted(predictors: str | None, continuations: str) -> Wanted:
    """`("critic,mc_9", "1,3,9")` wants critic and mc_9 alone. Raises `UserError`."""
    parts = [part.strip() for part in continuations.split(",")]
    if not all(re.fullmatch(r"[1-9]\d*", part) for part in parts):
        raise UserError(
            f"--continuations must be whole numbers from 1 with commas, got {continuations!r}"
        )
    names = None if predictors is None else tuple(map(str.strip, predictors.split(",")))
    return Wanted(names, tuple(map(int, parts)))


def read_states(
    paths: Sequence[Path], out: Path, truth: Path | None, wanted: Wanted
) -> pd.DataFrame:
    """The `STATES` of all paths. The truth of a run is looked for in `truth`, if that is given;
    else in `out`, then where `ground-truth` puts that of the other runs, then in the run itself.

    Raises `UserError` for what is neither run nor table, for a run that has no truth there, for
    runs of different tasks, for a method with two configs or from two sources, and for a seed of a
    method that is given twice.
    """
    given = [] if truth is None else [truth]
    tables = [p for p in paths if (p / STATES_NAME).exists() and not (p / "config.json").exists()]
    run_paths = [path for path in paths if path not in tables]
    check_names(run_paths)
    runs = {path: Run(path, read_config(path)) for path in run_paths}
    every = list(runs.values())
    check_alike(every, lambda run: {"task": run.config.get("task")}, "are runs of different tasks:")
    check_same_configs(every)
    frames: list[pd.DataFrame] = []
    sources: dict[str, Path | None] = {}  # by method: its table, None for run directories
    for path in paths:
        if path in runs:
            others = [other / "analysis" / ANALYSIS for other in run_paths if other != path]
            truths = find_truth(path, given, [out, *others])
            source, new = None, [truth_rows(runs[path], table, wanted) for table in truths.values()]
        else:
            source, new = path, [read_table(path, wanted.predictors)]
        for method in {name for frame in new for name in frame["method"]}:
            if sources.setdefault(method, source) != source:
                raise UserError(
                    f"{path} holds {method}, which stands in another table or run too; give either "
                    "its table or its run directories"
                )
        frames += new
    states = pd.concat(frames, ignore_index=True)
    _check(states)
    return states


def read_table(folder: Path, predictors: Sequence[str] | None = None) -> pd.DataFrame:
    """The states of a table, of some predictors only where these are named.

    Raises `UserError` naming the file, and the row where there is one.
    """
    path = folder / STATES_NAME
    rows = read_rows(path, STATES, "state", ("num_returns",))
    check_counts(rows, path)
    for number, row in enumerate(rows, start=1):
        if not math.isfinite(row["prediction"]):
            raise UserError(f"{path}, row {number}: prediction must be finite")
    held = {row["predictor"] for row in rows}
    for name in set(predictors or held) - held:
        raise UserError(f"{path} has no predictor {name}")
    return _state_frame([row for row in rows if row["predictor"] in (predictors or held)])


def write_states(path: Path, states: pd.DataFrame) -> None:
    known = states.astype(object).where(states.notna(), None)
    write_parquet(path, known.to_dict("records"), STATES)


def truth_rows(run: Run, table: Path, wanted: Wanted) -> pd.DataFrame:
    """The states of a truth table of a run, a row for each predictor that says something of it.

    Raises `UserError` for a truth of other rollouts than the run's, and for a wanted predictor that
    the run does not have.
    """
    states = read_truth(table)
    known = predictions(run.path, table, states, wanted)
    identity = run.identity
    task = hashlib.blake2b(strict_json(run.config.get("task")), digest_size=8).hexdigest()
    about = [
        {name: getattr(state, name) for name in STATES.names if hasattr(state, name)}
        | {"task": task, "position": state.prefix_length / state.response_length}
        | identity
        for state in states
    ]
    return _state_frame(
        [
            row | {"predictor": name, "prediction": value, "num_returns": num_returns}
            for name, of_name in known.items()
            for row, (value, num_returns) in zip(about, of_name, strict=True)
            if value is not None and math.isfinite(value)
        ]
    )


Prediction = tuple[float | None, int | None]  # a value, and how many returns it averages


def predictions(
    path: Path, table: Path, states: Sequence[TruthState], wanted: Wanted
) -> dict[str, list[Prediction]]:
    """What the chosen predictors say of every state, by name in their order.

    Raises `UserError` for one that there is not.
    """
    by_name = _from_rewards(path, table, states) | _of_run(path, states)
    trained = max(
        (num_draws(name) or 0 for name in by_name if name.startswith(MC_TRAIN)), default=0
    )
    for k in range(1, min(len(state.draws_D) for state in states) + 1):
        by_name[f"{MC}_{k}"] = [_mean(state.draws_D[:k]) for state in states]
    chosen = wanted.predictors
    if chosen is None:
        asked = [f"{MC}_{k}" for k in wanted.continuations]
        of_training = [f"{MC_TRAIN}_{k}" for k in (*wanted.continuations, trained)]
        held = [name for name in (f"{MC}_{trained}", *of_training) if name in by_name]
        chosen = (*(name for name in by_name if num_draws(name) is None), *asked, *held)
    for name in chosen:
        if name not in by_name:
            held = sorted(by_name, key=order)
            raise UserError(
                f"{path} has no predictor {name} at the states of {table}, only {', '.join(held)}"
            )
    return {name: by_name[name] for name in sorted(set(chosen), key=order)}


def _of_run(path: Path, states: Sequence[TruthState]) -> dict[str, list[Prediction]]:
    """What the run's own predictors say: by the values that training saved, or else by the truth's
    own columns.

    Those of its `values.predictors` have their name there, after `values/` where it is one of ours.
    """
    iteration = states[0].rollout_iteration
    values = values_by_state(path, iteration)
    rows = [values.get(state.key, {}) for state in states]
    critic: list[Prediction] = [(row.get("critic_value"), None) for row in rows]
    columns = {CRITIC: critic}
    for name, of_name in predictions_by_state(path, iteration).items():
        values_S = [of_name.get(state.key, {}) for state in states]
        columns[name] = [
            (row.get("value"), len(row.get("returns_K") or ()) or None) for row in values_S
        ]
    for name in {name for state in states for name in state.predictions}:
        if all(value is None for value, _ in columns.get(name, ())):
            columns[name] = [(state.predictions.get(name), None) for state in states]
    by_name: dict[str, list[Prediction]] = {}
    for name, column in columns.items():
        is_ours = name in FREE or num_draws(name) is not None
        if any(value is not None for value, _ in column):
            by_name[f"values/{name}" if is_ours else name] = column
    returns = [row.get("returns_K") or [] for row in rows]
    for k in range(1, max(map(len, returns)) + 1):
        by_name[f"{MC_TRAIN}_{k}"] = [
            _mean(values_S[:k] if len(values_S) >= k else ()) for values_S in returns
        ]
    return by_name


def _from_rewards(
    path: Path, table: Path, states: Sequence[TruthState]
) -> dict[str, list[Prediction]]:
    """The `FREE` predictors."""
    iteration = states[0].rollout_iteration
    rollouts = {
        (row["problem_id"], row["rollout_index"]): row for row in read_rollouts(path, iteration)
    }
    for state in states:
        if not _is_of(state, rollouts.get((state.problem_id, state.rollout_index))):
            raise UserError(
                f"{table}: state {state.step_index} of rollout {state.rollout_index} of "
                f"{state.problem_id} is none of {path}'s rollouts of iteration {iteration}"
            )
    every = [row["reward"] for row in rollouts.values()]
    by_name: dict[str, list[Prediction]] = {name: [] for name in FREE}
    for state in states:
        group = {i: row["reward"] for (p, i), row in rollouts.items() if p == state.problem_id}
        others = [reward for i, reward in group.items() if i != state.rollout_index]
        for name, rewards in zip(FREE, (list(group.values()), others, every), strict=True):
            by_name[name].append(_mean(rewards))
    return by_name


def _is_of(state: TruthState, rollout: Mapping[str, Any] | None) -> bool:
    starts = [] if rollout is None else rollout["step_starts"]
    if rollout is None or state.step_index >= len(starts):
        return False
    saved = len(starts), starts[state.step_index], len(rollout["response_ids"]), rollout["reward"]
    return saved == (state.num_steps, state.prefix_length, state.response_length, state.reward)


def _mean(returns: Sequence[float]) -> Prediction:
    return (sum(returns) / len(returns), len(returns)) if returns else (None, None)


def _state_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=STATES.names)
    return frame.astype({"num_returns": "Int64", "prediction": float})


def _check(states: pd.DataFrame) -> None:
    """What several runs, or a table, which holds no config, can still have wrong."""
    if states.empty:
        raise UserError("no predictor says anything of the states of the truth")
    first = states.iloc[0]
    seen: dict[tuple[Any, Any], Any] = {}
    for row in states[["run_dir", "method", "seed", "task"]].drop_duplicates().itertuples():
        if row.task != first["task"]:
            raise UserError(f"{first['run_dir']} and {row.run_dir} are runs of different tasks")
        other = seen.setdefault((row.method, row.seed), row.run_dir)
        if other != row.run_dir:
            raise UserError(f"{other} and {row.run_dir} are both seed {row.seed} of {row.method}")
    for (method, checkpoint), group in states.groupby(["method", "checkpoint"]):
        if len(sizes := sorted(group["num_samples"].unique())) > 1:
            raise UserError(
                f"{method}, checkpoint {checkpoint}: its truth must be of one number of samples, "
                f"got {' and '.join(map(str, sizes))}"
            )


def num_draws(predictor: str) -> int | None:
    """K of a Monte-Carlo estimate of the state itself: 9 of mc_9 and mc_train_9."""
    match = re.fullmatch(rf"(?:{MC}|{MC_TRAIN})_([1-9]\d*)", predictor)
    return int(match[1]) if match else None


def order(predictor: str) -> tuple[int, int, str]:
    """Where a predictor stands in tables and figures: critic, the run's others, MC, the rest."""
    if (num := num_draws(predictor)) is not None:
        return 2 + (not predictor.startswith(MC_TRAIN)), num, ""
    place = 0 if predictor == CRITIC else 4 if predictor in FREE else 1
    return place, FREE.index(predictor) if predictor in FREE else 0, predictor


def baseline_of(predictors: Sequence[str]) -> str | None:
    """What the others are compared with: mc_K of the K that the run trained with, or the largest.

    The training's K is the largest among `mc_train_K`: of (mc_1, mc_9, mc_27, mc_train_9) it is
    mc_9, of (critic, mc_1, mc_9) mc_9. None where there is no mc_K.
    """
    draws = {name: num for name in predictors if (num := num_draws(name)) is not None}
    fresh = {num for name, num in draws.items() if not name.startswith(MC_TRAIN)}
    trained = {num for name, num in draws.items() if name.startswith(MC_TRAIN) and num in fresh}
    return f"{MC}_{max(trained or fresh)}" if fresh else None


def make_cells(states: pd.DataFrame, *, each_seed: bool = True) -> Iterator[Cell]:
    """Of every seed, unless not wanted, and of all seeds of a method together."""
    unit = states["seed"].astype(str) + " " + states["problem_id"]
    states = states.assign(
        problem=pd.factorize(states["problem_id"], sort=True)[0],
        unit=pd.factorize(unit, sort=True)[0],
    )
    for (method, checkpoint), at in sorted_groups(states):
        for predictor in sorted(at["predictor"].unique(), key=order):
            whole = at[at["predictor"] == predictor]
            seeds = sorted(whole["seed"].unique())
            parts = [[seed] for seed in seeds] if each_seed and len(seeds) > 1 else []
            for part in [*parts, seeds]:
                chosen = whole[whole["seed"].isin(part)]
                about = {
                    "method": method,
                    "seeds": " ".join(map(str, part)),
                    "checkpoint": checkpoint,
                    "is_own_policy": int((chosen["rollout_iteration"] == checkpoint + 1).all()),
                    "predictor": predictor,
                }
                yield Cell(about, len(part) == len(seeds), num_draws(predictor), chosen)


def sorted_groups(frame: pd.DataFrame) -> list[tuple[tuple[str, int], pd.DataFrame]]:
    """By method in order of first sight, then by checkpoint."""
    return [
        ((str(method), int(checkpoint)), at)
        for method, group in frame.groupby("method", sort=False)
        for checkpoint, at in group.groupby("checkpoint")
    ]


def score_states(
    states: pd.DataFrame, settings: Settings, *, each_seed: bool = True
) -> pd.DataFrame:
    """The `SCORES`: a predictor's metrics, and those less the baseline's (`mae_minus_mc_9`)."""
    baselines = {
        place: group[group["predictor"] == baseline_of(group["predictor"].unique())]
        for place, group in sorted_groups(states)
    }
    rows: list[dict[str, Any]] = []
    for cell in progress(list(make_cells(states, each_seed=each_seed))):
        baseline = baselines[cell.about["method"], cell.about["checkpoint"]]
        for stratum, chosen_N in strata(cell).items():
            part = cell.where(chosen_N)
            if part.states.empty:
                continue
            if stratum in (BOUNDARIES, QUERY):
                rows += _score_rows(part, stratum, scores(part, settings))
                rows += difference_rows(part, stratum, baseline, settings)
            elif cell.is_whole:
                rows += _score_rows(part, stratum, error_scores(part, settings, METRICS_OF_STRATA))
    return SCORES.frame(rows)


def progress(cells: Sequence[Cell]) -> Iterator[Cell]:
    console = Console(stderr=True)
    yield from track(cells, NAME, console=console, transient=True, disable=not console.is_terminal)


def strata(cell: Cell) -> dict[str, np.ndarray]:
    """By stratum the states of it, [N] booleans: "query", "boundaries", "position [0, 0.2)".

    Position 0.2 is in the second fifth; a true value of 0.25 in "(0, 0.25]".
    """
    is_query_N, truth_N = cell["position"] == 0, cell.truths
    inner_N = 1 + np.searchsorted(VALUE_EDGES[1:-1], truth_N)
    places = {
        "position": np.searchsorted(FIFTHS, cell["position"], side="right"),
        "outcome": (cell["reward"] > 0.5).astype(int),
        "value": np.where(truth_N == 0, 0, np.where(truth_N == 1, len(VALUE_EDGES), inner_N)),
    }
    masks = {BOUNDARIES: ~is_query_N, QUERY: is_query_N}
    for axis, place_N in places.items():
        for place, name in enumerate(STRATA[axis]):
            masks[f"{axis} {name}"] = ~is_query_N & (place_N == place)
    return masks


def _score_rows(
    cell: Cell, stratum: str, estimates: Mapping[str, Estimate]
) -> list[dict[str, Any]]:
    about = cell.row() | {"stratum": stratum}
    return [
        about | {"metric": metric, "value": estimate}
        for metric, estimate in estimates.items()
        if math.isfinite(estimate.value)
    ]


def difference_rows(
    cell: Cell, stratum: str, baseline: pd.DataFrame, settings: Settings
) -> list[dict[str, Any]]:
    """A cell's metrics less the baseline's, on the states where both have a prediction."""
    of_baseline = baseline[[*STATE, "predictor", "prediction"]]
    common = cell.states.merge(of_baseline, on=STATE, suffixes=("", "_of_baseline"))
    name = common["predictor_of_baseline"].max()  # the same in all rows
    if common.empty or name == cell.about["predictor"]:
        return []
    shared = replace(cell, states=common)
    estimates = differences(shared, common["prediction_of_baseline"].to_numpy(), settings)
    return _score_rows(
        shared, stratum, {f"{key}_minus_{name}": estimate for key, estimate in estimates.items()}
    )


def reliability(states: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """The `RELIABILITY`, at every prediction or at 41 of them, and of tenths of [0, 1].

    Predictions outside of [0, 1] are moved to its ends, as in the Brier score.
    """
    rows: list[dict[str, Any]] = []
    for cell in progress(list(make_cells(states[states["position"] > 0], each_seed=False))):
        values_N = calibration.clipped(cell.values, 0)
        points, fitted = calibration.corp_curve(values_N, *cell.truth)
        at = points
        if len(points) > NUM_POINTS:
            at = np.linspace(points[0], points[-1], NUM_POINTS)
        exact = calibration.consistency_band(
            values_N, cell.num_samples, at, settings.generator, **settings.refits
        )
        drawn_anew = calibration.confidence_band(
            values_N, *cell.truth, cell["problem"], at, settings.generator, **settings.refits
        )
        curve = calibration.evaluate(points, fitted, at)
        for kind, truth, band in ((CURVE, curve, drawn_anew), (EXACT, at, exact)):
            rows += [
                cell.about | {"kind": kind, "prediction": q, "truth": Estimate(*numbers)}
                for q, *numbers in zip(at, truth, *band, strict=True)
            ]
        rows += [
            cell.about
            | {"kind": BIN, "prediction": one_bin.prediction, "num_states": one_bin.num_states}
            | {"truth": Estimate(one_bin.truth, None, None)}
            for one_bin in calibration.binned(values_N, *cell.truth, NUM_BINS)
        ]
    return RELIABILITY.frame(rows)


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of all seeds of a method together, which leave no seed out."""
    count = rows["seeds"].str.split().str.len()
    most = count.groupby([rows["method"], rows["checkpoint"], rows["predictor"]]).transform("max")
    return rows[count == most]


def summary_content(rows: pd.DataFrame, settings: Settings) -> dict[str, Any]:
    """The main numbers on the step boundaries, by method, checkpoint and predictor."""
    methods: dict[str, Any] = {}
    rows = shown(rows[rows["stratum"] == BOUNDARIES])
    for row in rows[rows["metric"].isin(SUMMARY_METRICS)].to_dict("records"):
        of_method = methods.setdefault(row["method"], {})
        of_checkpoint = of_method.setdefault(str(row["checkpoint"]), {})
        about = {name: row[name] for name in ("seeds", "num_states", "num_problems")}
        about |= {"is_own_policy": bool(row["is_own_policy"])}
        of_checkpoint.setdefault(row["predictor"], about)[row["metric"]] = estimate(row, "value")
    return {"level": settings.level, "threshold": settings.threshold, "methods": methods}
