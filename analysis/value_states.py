"""The states that `value-accuracy` scores: what fresh continuations and each predictor say of them.

A state stands in its table once for every predictor, with the measured truth beside each.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import frames
from analysis.frames import Run
from analysis.rollout_files import predictions_by_state, read_rollouts, values_by_state
from analysis.stats.value_scores import Cell
from analysis.tables import check_counts, read_rows
from analysis.truth import ANALYSIS, TruthState, check_names, check_rollouts, find_truth, read_truth
from vineppo.errors import UserError
from vineppo.run_dir import strict_json, write_parquet

# A predictor's value of a run's state, and the count of `num_samples` fresh returns. `task` is a
# digest of the run's. `checkpoint` is the policy of the truth; `rollout_iteration` and `reward` are
# the rollout's. `position` is the share of the response before the state, 0 for the query.
# `num_returns` is how many returns the prediction averages, empty for none.
STATES_NAME = "value_accuracy_states.parquet"
STATES = pa.schema(
    dict.fromkeys(("run_dir", "method", "task", "problem_id", "predictor"), pa.string())
    | dict.fromkeys(("seed", "checkpoint", "rollout_iteration"), pa.int32())
    | dict.fromkeys(("rollout_index", "step_index", "num_steps"), pa.int32())
    | dict.fromkeys(("num_samples", "num_correct", "num_returns"), pa.int32())
    | dict.fromkeys(("position", "reward", "prediction"), pa.float64())
)
STATE = ["seed", "problem_id", "rollout_index", "step_index"]
CRITIC, MC, MC_TRAIN = "critic", "mc", "mc_train"
FREE = ("group_mean", "group_mean_others", "constant")  # from the rewards of the iteration

BOUNDARIES, QUERY = "boundaries", "query"
# Strata by true value are made by t, the very number that errors are taken from: even exact values
# look too low where t is high, by about its noise √(p(1 − p)/m). 0 and 1 stand apart.
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
Prediction = tuple[float | None, int | None]  # a value, and how many returns it averages


def read_states(
    paths: Sequence[Path], out: Path, truth: Sequence[Path], continuations: Sequence[int]
) -> pd.DataFrame:
    """The `STATES` of all paths; a run's truth is looked for in `truth`, if that is given.

    Else it is in `out`, the `ground-truth` folders of the other runs, or the run's, in this order.
    Raises `UserError` for runs that cannot be compared, and for a run without truth.
    """
    tables = [p for p in paths if (p / STATES_NAME).exists() and not (p / "config.json").exists()]
    run_paths = [path for path in paths if path not in tables]
    check_names(run_paths)
    runs = {path: Run(path, frames.read_config(path)) for path in run_paths}
    frames.check_same_tasks(list(runs.values()))
    frames.check_same_configs(list(runs.values()))
    parts: list[tuple[Path, pd.DataFrame]] = []
    for path in paths:
        if path in tables:
            parts.append((path, read_table(path)))
            continue
        others = [other / "analysis" / ANALYSIS for other in run_paths if other != path]
        truths = find_truth(path, truth, [out, *others])
        parts += [(path, truth_rows(runs[path], table, continuations)) for table in truths.values()]
    states = frames.concatenated(parts, run_paths, "method")
    _check(states)
    return states


def read_table(folder: Path) -> pd.DataFrame:
    """The states of a table. Raises `UserError` naming the file, and the row if there is one."""
    path = folder / STATES_NAME
    rows = read_rows(path, STATES, "state", ("num_returns",))
    check_counts(rows, path)
    for number, row in enumerate(rows, start=1):
        if not math.isfinite(row["prediction"]):
            raise UserError(f"{path}, row {number}: prediction must be finite")
    return _state_frame(rows)


def write_states(path: Path, states: pd.DataFrame) -> None:
    known = states.astype(object).where(states.notna(), None)
    write_parquet(path, known.to_dict("records"), STATES)


def truth_rows(run: Run, table: Path, continuations: Sequence[int]) -> pd.DataFrame:
    """The states of a truth table of a run, a row for each predictor that says something of it.

    Raises `UserError` for a truth of other rollouts than the run's, and of too few draws.
    """
    states = read_truth(table)
    known = predictions(run.path, table, states, continuations)
    task = hashlib.blake2b(strict_json(run.config.get("task")), digest_size=8).hexdigest()
    about = [
        {name: getattr(state, name) for name in STATES.names if hasattr(state, name)}
        | {"task": task, "position": state.prefix_length / state.response_length}
        | run.identity
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


def predictions(
    path: Path, table: Path, states: Sequence[TruthState], continuations: Sequence[int]
) -> dict[str, list[Prediction]]:
    """The predictions of every state by each predictor, in their order.

    MC(K) of the `continuations` and of the K of the run's training. Raises `UserError` for more
    than there are draws.
    """
    of_run = _of_run(path, states)
    trained = max(num_draws(name) or 0 for name in of_run) if of_run else 0
    held = min(len(state.draws_D) for state in states)
    if (most := max(continuations)) > held:
        raise UserError(
            f"{table} has {held} draws a state, too few for --continuations {most}: lower it, or "
            f"run ground-truth with --draws {most}"
        )
    drawn = {
        f"{MC}_{k}": [_mean(state.draws_D[:k]) for state in states]
        for k in {*continuations, trained}
        if 0 < k <= held
    }
    by_name = _from_rewards(path, table, states) | of_run | drawn
    wanted = None, *continuations, trained
    return {k: by_name[k] for k in sorted(by_name, key=order) if num_draws(k) in wanted}


def _of_run(path: Path, states: Sequence[TruthState]) -> dict[str, list[Prediction]]:
    """The run's predictors, by the values that training saved, else by the truth's columns.

    A name of `values.predictors` stands after `values/` where it is one of ours.
    """
    iteration = states[0].rollout_iteration
    values = values_by_state(path, iteration)
    rows = [values.get(state.key, {}) for state in states]
    columns: dict[str, list[Prediction]] = {CRITIC: [(r.get("critic_value"), None) for r in rows]}
    for name, of_name in predictions_by_state(path, iteration).items():
        found = [of_name.get(state.key, {}) for state in states]
        columns[name] = [(r.get("value"), len(r.get("returns_K") or ()) or None) for r in found]
    for name in {name for state in states for name in state.predictions}:
        if not _says_anything(columns.get(name, ())):
            columns[name] = [(state.predictions.get(name), None) for state in states]
    by_name = {
        f"values/{name}" if name in FREE or num_draws(name) is not None else name: column
        for name, column in columns.items()
        if _says_anything(column)
    }
    returns = [row.get("returns_K") or [] for row in rows]
    for k in range(1, max(map(len, returns)) + 1):
        by_name[f"{MC_TRAIN}_{k}"] = [
            _mean(values_S[:k] if len(values_S) >= k else ()) for values_S in returns
        ]
    return by_name


def _says_anything(column: Sequence[Prediction]) -> bool:
    return any(value is not None for value, _ in column)


def _from_rewards(
    path: Path, table: Path, states: Sequence[TruthState]
) -> dict[str, list[Prediction]]:
    """The `FREE` predictors."""
    rollouts = read_rollouts(path, states[0].rollout_iteration)
    check_rollouts(states, rollouts, table)
    every = [row["reward"] for row in rollouts]
    rewards: dict[str, dict[int, float]] = {}  # by problem, then rollout
    for row in rollouts:
        rewards.setdefault(row["problem_id"], {})[row["rollout_index"]] = row["reward"]
    columns = []
    for state in states:
        group = rewards[state.problem_id]
        others = [reward for i, reward in group.items() if i != state.rollout_index]
        columns.append([_mean(list(group.values())), _mean(others), _mean(every)])
    return dict(zip(FREE, map(list, zip(*columns, strict=True)), strict=True))


def _mean(returns: Sequence[float]) -> Prediction:
    return (sum(returns) / len(returns), len(returns)) if returns else (None, None)


def _state_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=STATES.names)
    return frame.astype({"num_returns": "Int64", "prediction": float})


def _check(states: pd.DataFrame) -> None:
    """Refuses states of different tasks, of a seed given twice, of unlike truths (`UserError`)."""
    if states.empty:
        raise UserError("no predictor says anything of the states of the truth")
    first = states.iloc[0]
    runs = states[["run_dir", "method", "seed", "task"]].drop_duplicates()
    for run_dir in runs.loc[runs["task"] != first["task"], "run_dir"]:
        raise UserError(f"{first['run_dir']} and {run_dir} are runs of different tasks")
    frames.check_seeds_once(runs)
    for (method, checkpoint), sizes in states.groupby(["method", "checkpoint"])["num_samples"]:
        if sizes.nunique() > 1:
            raise UserError(
                f"{method}, checkpoint {checkpoint}: its truth must be of one number of samples, "
                f"got {' and '.join(map(str, sorted(sizes.unique())))}"
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
