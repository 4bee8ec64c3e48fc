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
from functools import cached_property
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
from analysis.stats import calibration, correlation, errors
from analysis.stats.bootstrap import (
    Estimate,
    Sums,
    SumStatistic,
    Terms,
    bootstrap_difference,
    bootstrap_sums,
    bootstrap_weights,
    mean,
    mean_terms,
    ratio,
    reflected,
)
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
    {
        "run_dir": pa.string(),
        "method": pa.string(),
        "seed": pa.int32(),
        "task": pa.string(),
        "checkpoint": pa.int32(),
        "rollout_iteration": pa.int32(),
        "problem_id": pa.string(),
        "rollout_index": pa.int32(),
        "step_index": pa.int32(),
        "num_steps": pa.int32(),
        "position": pa.float64(),
        "reward": pa.float64(),
        "num_samples": pa.int32(),
        "num_correct": pa.int32(),
        "predictor": pa.string(),
        "num_returns": pa.int32(),
        "prediction": pa.float64(),
    }
)
STATE = ["seed", "problem_id", "rollout_index", "step_index"]
# Which states a number is of: those of the `seeds` of a method at a checkpoint. `is_own_policy` is
# 0 where the training's predictions are of the policy one update before that of the truth.
OF_STATES: dict[str, Any] = {
    "method": str,
    "seeds": str,
    "checkpoint": int,
    "is_own_policy": int,
    "predictor": str,
}
# One metric of a predictor on a stratum of the states: all step boundaries, the queries, or, of all
# seeds together, the boundaries by position, outcome or true value. What is undefined has no row.
SCORES = Table(
    f"{STEM}.csv",
    {
        **OF_STATES,
        "stratum": str,
        "metric": str,
        "value": Estimate,
        "num_states": int,
        "num_problems": int,
    },
)
# The truth where a predictor says `prediction`, on the step boundaries of all seeds together: a
# point of the CORP curve with its confidence band ("curve"), where that curve would lie if every
# prediction were exact ("exact"), or the means of a tenth of [0, 1] ("bin").
RELIABILITY = Table(
    f"{STEM}_reliability.csv",
    {
        **OF_STATES,
        "kind": str,
        "prediction": float,
        "truth": Estimate,
        "num_states": int | None,
    },
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
CORP_PARTS = ("miscalibration", "discrimination", "uncertainty")


@dataclass(frozen=True)
class Settings:
    """`threshold` is that of `accuracy`, `level` that of all intervals.

    `num_resamples` resamples of problems make an interval, `num_refits` where every resample is
    ranked or fitted anew: Spearman's correlation over all states, the scores, the bands.
    """

    threshold: float = 0.1
    level: float = 0.95
    num_resamples: int = 2000
    num_refits: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise UserError(f"--threshold must be in 0..1, got {self.threshold}")
        if not 0 < self.level < 1:
            raise UserError(f"--level must be between 0 and 1, got {self.level}")
        for name, least in (("num_resamples", 1), ("num_refits", 1), ("seed", 0)):
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise UserError(f"--{option} must be at least {least}, got {getattr(self, name)}")

    @property
    def generator(self) -> np.random.Generator:
        """Always new, so that all predictors see the same resamples of the same problems."""
        return np.random.default_rng(self.seed)

    @property
    def sums(self) -> dict[str, Any]:
        return {"num_resamples": self.num_resamples, "level": self.level}

    @property
    def refits(self) -> dict[str, Any]:
        return {"num_resamples": self.num_refits, "level": self.level}


@dataclass(frozen=True)
class Wanted:
    """What to predict with: `predictors` by name, or None for all that a run has.

    `continuations` are then the K of MC, to which that of the run's training is added.
    """

    predictors: tuple[str, ...] | None = None
    continuations: tuple[int, ...] = (1, 3, 9)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--truth",
        type=Path,
        metavar="DIR",
        help="the --out of ground-truth; default: OUT, then where ground-truth puts it by default",
    )
    parser.add_argument(
        "--predictors",
        metavar="NAME,…",
        help="critic, mc_train_9, mc_9, group_mean, group_mean_others, constant, the names in the "
        "run's values.predictors; default: all that a run has",
    )
    parser.add_argument(
        "--continuations",
        default="1,3,9",
        metavar="K,…",
        help="the K of mc_K and mc_train_K where --predictors does not name them, besides that of "
        "the training; a table has its own; default: 1,3,9",
    )
    for name, text in (
        ("threshold", "accuracy: |error| at most this"),
        ("level", "of intervals"),
        ("num_resamples", "of problems, by interval"),
        ("num_refits", "the same where each is ranked or fitted anew: Spearman, scores, bands"),
        ("seed", "which problems are resampled"),
    ):
        default = getattr(Settings, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(default),
            default=default,
            help=f"{text}; default: {default}",
        )


def run(
    paths: list[Path],
    out: Path,
    truth: Path | None,
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
    states = read_states(paths, out, truth, parse_wanted(predictors, continuations))
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


# Where states come from.


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
    check_alike(
        list(runs.values()),
        lambda one: {"task": one.config.get("task")},
        "are runs of different tasks:",
    )
    check_same_configs(list(runs.values()))
    frames: list[pd.DataFrame] = []
    sources: dict[str, Path | None] = {}  # by method: its table, None for run directories
    for path in paths:
        if path in runs:
            others = [other / "analysis" / ANALYSIS for other in run_paths if other != path]
            truths = find_truth(path, given, [out, *others])
            source, new = None, [truth_rows(runs[path], table, wanted) for table in truths.values()]
        else:
            source, new = path, [_of_predictors(read_table(path), wanted.predictors, path)]
        for method in {name for of in new for name in of["method"]}:
            if sources.setdefault(method, source) != source:
                raise UserError(
                    f"{path} holds {method}, which stands in another table or run too; give either "
                    "its table or its run directories"
                )
        frames += new
    states = pd.concat(frames, ignore_index=True)
    _check_seeds(states)
    _check_samples(states)
    return states


def read_table(folder: Path) -> pd.DataFrame:
    """The states of a table. Raises `UserError` naming the file, and the row where there is one."""
    path = folder / STATES_NAME
    rows = read_rows(path, STATES, "state", ("num_returns",))
    check_counts(rows, path)
    for number, row in enumerate(rows, start=1):
        if not math.isfinite(row["prediction"]):
            raise UserError(f"{path}, row {number}: prediction must be finite")
    return _state_frame(rows)


def write_states(path: Path, states: pd.DataFrame) -> None:
    known = states.astype(object).where(states.notna(), None)
    write_parquet(path, known.to_dict("records"), STATES)  # type: ignore[arg-type]


def truth_rows(one: Run, table: Path, wanted: Wanted) -> pd.DataFrame:
    """The states of a truth table of a run, a row for each predictor that says something of it.

    Raises `UserError` for a truth of other rollouts than the run's, and for a wanted predictor that
    the run does not have.
    """
    states = read_truth(table)
    known = predictions(one.path, table, states, wanted)
    identity = one.identity
    task = hashlib.blake2b(strict_json(one.config.get("task")), digest_size=8).hexdigest()
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

    Those of the run's `values.predictors` have their name there, after `values/` where it is one of
    ours. Raises `UserError` for one that there is not.
    """
    iteration = states[0].rollout_iteration
    values = values_by_state(path, iteration)
    rows = [values.get(state.key, {}) for state in states]
    returns = [row.get("returns_K") or [] for row in rows]
    found: dict[str, list[Prediction]] = {
        CRITIC: [(row.get("critic_value"), None) for row in rows],
        **_from_rewards(path, table, states),
    }
    for name, of_name in predictions_by_state(path, iteration).items():
        further = [of_name.get(state.key, {}) for state in states]
        found[f"values/{name}" if name in found or num_draws(name) else name] = [
            (row.get("value"), len(row.get("returns_K") or []) or None) for row in further
        ]
    if all(value is None for value, _ in found[CRITIC]):
        del found[CRITIC]
    most, trained = min(len(state.draws_D) for state in states), max(map(len, returns))
    for k in range(1, most + 1):
        found[f"{MC}_{k}"] = [_mean(state.draws_D[:k]) for state in states]
    for k in range(1, trained + 1):
        found[f"{MC_TRAIN}_{k}"] = [_mean(of[:k] if len(of) >= k else ()) for of in returns]
    chosen = wanted.predictors
    if chosen is None:
        fresh = {*wanted.continuations, *({trained} if 0 < trained <= most else ())}
        chosen = (
            *(name for name in found if num_draws(name) is None),
            *(f"{MC}_{k}" for k in fresh),
            *(f"{MC_TRAIN}_{k}" for k in {*wanted.continuations, trained} if 0 < k <= trained),
        )
    for name in chosen:
        if name not in found:
            raise UserError(
                f"{path} has no predictor {name} at the states of {table}, only "
                + ", ".join(
                    [*(one for one in found if num_draws(one) is None), f"{MC}_K to K = {most}"]
                    + [f"{MC_TRAIN}_K to K = {trained}"] * (trained > 0)
                )
            )
    return {name: found[name] for name in sorted(set(chosen), key=order)}


def _from_rewards(
    path: Path, table: Path, states: Sequence[TruthState]
) -> dict[str, list[Prediction]]:
    """The `FREE` predictors."""
    iteration = states[0].rollout_iteration
    rollouts = {
        (row["problem_id"], row["rollout_index"]): row for row in read_rollouts(path, iteration)
    }
    rewards: dict[str, dict[int, float]] = {}
    for (problem, index), row in rollouts.items():
        rewards.setdefault(problem, {})[index] = row["reward"]
    for state in states:
        if not _is_of(state, rollouts.get((state.problem_id, state.rollout_index))):
            raise UserError(
                f"{table}: state {state.step_index} of rollout {state.rollout_index} of "
                f"{state.problem_id} is none of {path}'s rollouts of iteration {iteration}"
            )
    others = [
        [reward for index, reward in rewards[s.problem_id].items() if index != s.rollout_index]
        for s in states
    ]
    constant = _mean([row["reward"] for row in rollouts.values()])
    of_each = [[_mean(list(rewards[s.problem_id].values())) for s in states]]
    of_each += [list(map(_mean, others)), [constant] * len(states)]
    return dict(zip(FREE, of_each, strict=True))


def _is_of(state: TruthState, rollout: Mapping[str, Any] | None) -> bool:
    starts = [] if rollout is None else rollout["step_starts"]
    return (
        rollout is not None
        and len(starts) == state.num_steps
        and state.step_index < len(starts)
        and starts[state.step_index] == state.prefix_length
        and len(rollout["response_ids"]) == state.response_length
        and rollout["reward"] == state.reward
    )


def _mean(returns: Sequence[float]) -> Prediction:
    return (sum(returns) / len(returns), len(returns)) if returns else (None, None)


def _state_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=STATES.names)
    return frame.astype({"num_returns": "Int64", "prediction": float})


def _of_predictors(states: pd.DataFrame, names: Sequence[str] | None, folder: Path) -> pd.DataFrame:
    for name in names or ():
        if name not in set(states["predictor"]):
            raise UserError(f"{folder / STATES_NAME} has no predictor {name}")
    return states if names is None else states[states["predictor"].isin(names)]


def _check_seeds(states: pd.DataFrame) -> None:
    """What two runs, or a table, which holds no config, can still have wrong."""
    if states.empty:
        raise UserError("no predictor says anything of the states of the truth")
    seen: dict[tuple[str, int], str] = {}
    for row in states[["run_dir", "method", "seed", "task"]].drop_duplicates().itertuples():
        if row.task != states["task"].iloc[0]:
            first = states["run_dir"].iloc[0]
            raise UserError(f"{first} and {row.run_dir} are runs of different tasks")
        other = seen.setdefault((row.method, row.seed), row.run_dir)
        if other != row.run_dir:
            raise UserError(f"{other} and {row.run_dir} are both seed {row.seed} of {row.method}")


def _check_samples(states: pd.DataFrame) -> None:
    for (method, checkpoint), of in states.groupby(["method", "checkpoint"]):
        if len(sizes := sorted(of["num_samples"].unique())) > 1:
            raise UserError(
                f"{method}, checkpoint {checkpoint}: its truth must be of one number of samples, "
                f"got {' and '.join(map(str, sizes))}"
            )


# The predictors' names.


def num_draws(predictor: str) -> int | None:
    """K of a Monte-Carlo estimate of the state itself: 9 of mc_9 and mc_train_9."""
    found = re.fullmatch(rf"(?:{MC}|{MC_TRAIN})_([1-9]\d*)", predictor)
    return int(found[1]) if found else None


def order(predictor: str) -> tuple[int, int, str]:
    """Where a predictor stands in tables and figures: the critic, the run's others, MC, the rest."""
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


# What they are worth.


@dataclass(frozen=True)
class Cell:
    """The states on which a number of a table rests: those that one predictor values.

    `about` are the columns `OF_STATES`, `is_whole` is False of one of several seeds. The bootstrap
    draws problems: one that several seeds met is one. Within a unit, a problem of one seed, there
    is one policy.
    """

    about: dict[str, Any]
    is_whole: bool
    states: pd.DataFrame

    def __getitem__(self, column: str) -> np.ndarray:
        return self.states[column].to_numpy()

    @cached_property
    def values(self) -> np.ndarray:
        return self["prediction"].astype(float)

    @property
    def truth(self) -> tuple[np.ndarray, int]:
        """num_correct_N and num_samples."""
        return self["num_correct"], self.num_samples

    @property
    def num_samples(self) -> int:
        return int(self.states["num_samples"].iloc[0])

    @cached_property
    def truths(self) -> np.ndarray:
        """The measured values t = c/m, [N]."""
        return self["num_correct"] / self.num_samples

    @property
    def num_draws(self) -> int | None:
        return num_draws(self.about["predictor"])

    @cached_property
    def floors(self) -> np.ndarray:
        """E|v − t| of a perfect v, [N]: the mean of K draws, or p itself where there are none."""
        counts, place_N = np.unique(self["num_correct"], return_inverse=True)
        values, m = counts / self.num_samples, self.num_samples
        if self.num_draws is None:
            return errors.expected_absolute_error(values, m, None)[place_N]
        return errors.expected_absolute_error(values, self.num_draws, m)[place_N]

    @property
    def log_margin(self) -> float:
        """How far the log score keeps a prediction from 0 and 1 (`calibration.clipped`).

        1/(2n + 2) of a mean of n returns, the fewest here; of others n is the truth's number.
        """
        fewest = self.states["num_returns"].min()
        return float(1 / (2 * (self.num_samples if pd.isna(fewest) else fewest) + 2))

    def where(self, chosen_N: np.ndarray) -> "Cell":
        return replace(self, states=self.states[chosen_N])

    def row(self) -> dict[str, Any]:
        num_problems = self.states["problem"].nunique()
        return self.about | {"num_states": len(self.states), "num_problems": num_problems}


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
                of = whole[whole["seed"].isin(part)]
                about = {
                    "method": method,
                    "seeds": " ".join(map(str, part)),
                    "checkpoint": checkpoint,
                    "is_own_policy": int((of["rollout_iteration"] == checkpoint + 1).all()),
                    "predictor": predictor,
                }
                yield Cell(about, len(part) == len(seeds), of)


def sorted_groups(frame: pd.DataFrame) -> list[tuple[tuple[str, int], pd.DataFrame]]:
    """By method in order of first sight, then by checkpoint."""
    return [
        ((str(method), int(checkpoint)), at)
        for method, of in frame.groupby("method", sort=False)
        for checkpoint, at in of.groupby("checkpoint")
    ]


def score_states(
    states: pd.DataFrame, settings: Settings, *, each_seed: bool = True
) -> pd.DataFrame:
    """The `SCORES`: a predictor's metrics, and those less the baseline's (`mae_minus_mc_9`)."""
    baselines = {key: baseline_of(of["predictor"].unique()) for key, of in sorted_groups(states)}
    by_place = dict(sorted_groups(states))
    rows: list[dict[str, Any]] = []
    for cell in progress(list(make_cells(states, each_seed=each_seed))):
        place = cell.about["method"], cell.about["checkpoint"]
        baseline = by_place[place][by_place[place]["predictor"] == baselines[place]]
        for stratum, chosen_N in strata(cell).items():
            part = cell.where(chosen_N)
            if not len(part.states):
                continue
            if stratum in (BOUNDARIES, QUERY):
                found = scores(part, settings)
                rows += _score_rows(part, stratum, found)
                if cell.about["predictor"] != baselines[place]:
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
    found = {BOUNDARIES: ~is_query_N, QUERY: is_query_N}
    for axis, place_N in places.items():
        for place, name in enumerate(STRATA[axis]):
            found[f"{axis} {name}"] = ~is_query_N & (place_N == place)
    return found


def _score_rows(cell: Cell, stratum: str, found: Mapping[str, Estimate]) -> list[dict[str, Any]]:
    about = cell.row() | {"stratum": stratum}
    return [
        about | {"metric": metric, "value": one}
        for metric, one in found.items()
        if math.isfinite(one.value)
    ]


def scores(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Every metric of a cell with its interval over problems; NaN where it is undefined."""
    return (
        error_scores(cell, settings)
        | _split(cell, settings)
        | _within(cell, settings)
        | _refitted(cell, settings)
    )


def pooled_terms(cell: Cell, threshold: float) -> dict[str, np.ndarray]:
    """The terms of errors and of the correlation over all states."""
    return (
        errors.error_terms(cell.values, *cell.truth, threshold)
        | correlation.pooled_terms(cell.values, cell.truths)
        | correlation.reliability_terms(*cell.truth)
    )


def within_terms(cell: Cell) -> dict[str, np.ndarray]:
    """The terms of the correlation within problems and of its reliability."""
    return correlation.within_terms(
        cell.values, cell.truths, cell["unit"]
    ) | correlation.within_reliability_terms(*cell.truth, cell["unit"])


def error_scores(
    cell: Cell, settings: Settings, names: Sequence[str] | None = None
) -> dict[str, Estimate]:
    """Errors and the correlation over all states; of these the `names`."""
    terms = pooled_terms(cell, settings.threshold) | {
        "floor": cell.floors,
        "return_variance": errors.return_variance(*cell.truth),
        "prediction": cell.values,
        "true_value": cell.truths,
    }
    k = cell.num_draws or np.inf
    statistics: dict[str, SumStatistic] = {
        "prediction_mean": lambda sums: ratio(sums["prediction"], sums["one"]),
        "truth_mean": lambda sums: ratio(sums["true_value"], sums["one"]),
        "bias": errors.bias,
        "mae": errors.mae,
        "mae_floor": lambda sums: ratio(sums["floor"], sums["one"]),
        "mae_above_floor": lambda sums: ratio(sums["absolute"] - sums["floor"], sums["one"]),
        "mse": errors.mse,
        "mse_corrected": errors.corrected_mse,
        "mse_corrected_floor": lambda sums: ratio(sums["return_variance"], sums["one"]) / k,
        # Σ p(1 − p) / Σ (v − p)² by unbiased estimates of both; NaN where the latter is not
        # positive. Values 0.5, 0.5 of 0 and 2 of 4 returns: (0 + 1/3) / (0.25 − 0.08333) = 2.
        "equivalent_draws": lambda s: ratio(s["return_variance"], s["squared"] - s["noise"]),
        "accuracy": errors.accuracy,
        "explained_variance": errors.explained_variance,
        "explained_variance_corrected": errors.corrected_explained_variance,
        "pearson": correlation.pearson,
        **_attenuated("pearson", correlation.pearson, correlation.reliability, cell),
    }
    wanted = {name: statistics[name] for name in names or statistics}
    return _bootstrapped(cell, terms, wanted, settings)


def _attenuated(
    name: str, statistic: SumStatistic, reliability: SumStatistic, cell: Cell
) -> dict[str, SumStatistic]:
    """The reliability of the truth, the ceiling of a correlation, and the latter without noise."""

    def ceiling(sums: Sums) -> np.ndarray:
        exact = correlation.ceiling(reliability(sums))
        if cell.num_draws is None:
            return exact
        factor = cell.num_draws / cell.num_samples
        return exact * correlation.ceiling(correlation.spearman_brown(reliability(sums), factor))

    return {
        f"{name}_reliability": reliability,
        f"{name}_ceiling": ceiling,
        f"{name}_disattenuated": lambda sums: correlation.disattenuated(
            statistic(sums), reliability(sums)
        ),
    }


def _split(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Squared error of Monte-Carlo values by their own draws; undefined of a single one."""
    if cell.num_draws is None or cell.num_draws < 2:
        return {}
    correct_N = np.round(cell.values * cell.num_draws).astype(int)
    terms = errors.split_error_terms(correct_N, cell.num_draws, *cell.truth)
    statistics = {
        "mse_sampling": errors.sampling_mse,
        "mse_systematic": errors.systematic_mse,
        "mse_sampling_share": errors.sampling_share,
    }
    return _bootstrapped(cell, terms, statistics, settings)


def _within(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Correlations within problems, every state or every problem counting alike."""
    unit_N = cell["unit"]
    statistic, reliability = correlation.within, correlation.within_reliability
    parts = {"pearson_within": statistic}
    parts |= _attenuated("pearson_within", statistic, reliability, cell)
    found = _bootstrapped(cell, within_terms(cell), parts, settings)
    ranks = [correlation.ranks_within(of_N, unit_N) for of_N in (cell.values, cell.truths)]
    _, first_of_unit = np.unique(unit_N, return_index=True)
    at_units = replace(cell, states=cell.states.iloc[first_of_unit])
    for name, (x_N, y_N) in {
        "pearson_within_mean": (cell.values, cell.truths),
        "spearman_within_mean": (ranks[0], ranks[1]),
    }.items():
        terms = mean_terms(correlation.problem_correlations(x_N, y_N, unit_N))
        found |= _bootstrapped(at_units, terms, {name: mean}, settings)
    terms = correlation.within_terms(ranks[0], ranks[1], unit_N)
    return found | _bootstrapped(cell, terms, {"spearman_within": statistic}, settings)


def _refitted(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Spearman's correlation, and both scores with their CORP parts.

    An isotonic fit finds miscalibration in chance alone, and more in every resample. In simulations
    of 60 problems the percentiles of a critic's, calibrated or not, covered what many problems come
    to in 0 to 2 %; reflected they do in 93 %, and where little is known of calibrated ones (50
    problems, 64 returns) in 83 %. Percentiles of discrimination do in 90 to 95 %.
    """
    spearman = correlation.spearman(cell.values, cell.truths)
    rules = {
        "brier": (calibration.brier, calibration.clipped(cell.values, 0)),
        "log_score": (calibration.log_score, calibration.clipped(cell.values, cell.log_margin)),
    }

    def statistic(weights_N: np.ndarray) -> dict[str, float]:
        numbers = {"spearman": spearman(weights_N)}
        for name, (rule, predictions_N) in rules.items():
            parts = calibration.corp(rule, predictions_N, *cell.truth, weights_N)
            numbers |= {name: parts.score}
            numbers |= {f"{name}_{part}": getattr(parts, part) for part in CORP_PARTS}
        return numbers

    found = bootstrap_weights(statistic, cell["problem"], settings.generator, **settings.refits)
    raised = (f"{name}_miscalibration" for name in rules)
    return found | {name: reflected(found[name], least=0.0) for name in raised}


def _bootstrapped(
    cell: Cell, terms: Terms, statistics: Mapping[str, SumStatistic], settings: Settings
) -> dict[str, Estimate]:
    problem_N = cell["problem"]
    return bootstrap_sums(terms, problem_N, statistics, settings.generator, **settings.sums)


def difference_rows(
    cell: Cell, stratum: str, baseline: pd.DataFrame, settings: Settings
) -> list[dict[str, Any]]:
    """MAE, MSE and correlations less the baseline's, on the states where both have a prediction
    and the same resamples of problems."""
    of_baseline = baseline[[*STATE, "predictor", "prediction"]]
    common = cell.states.merge(of_baseline, on=STATE, suffixes=("", "_of_baseline"))
    if common.empty:
        return []
    one = replace(cell, states=common)
    other = replace(cell, states=common.assign(prediction=common["prediction_of_baseline"]))
    found: dict[str, Estimate] = {}
    # The noise of the truth is the same on both sides: the MSE's is that of the corrected one.
    pooled = {"mae": errors.mae, "mse": errors.mse, "pearson": correlation.pearson}
    for terms, statistics in (
        ([pooled_terms(of, settings.threshold) for of in (one, other)], pooled),
        ([within_terms(of) for of in (one, other)], {"pearson_within": correlation.within}),
    ):
        found |= bootstrap_difference(
            *terms, one["problem"], statistics, settings.generator, **settings.sums
        )
    minus = f"minus_{baseline['predictor'].iloc[0]}"
    return _score_rows(one, stratum, {f"{name}_{minus}": of for name, of in found.items()})


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
            | {"kind": BIN, "prediction": of.prediction, "num_states": of.num_states}
            | {"truth": Estimate(of.truth, None, None)}
            for of in calibration.binned(values_N, *cell.truth, NUM_BINS)
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
