"""Right answers by problem at every evaluation of every run: the table of `compare` and `power`.

`evaluations.parquet` has a row a problem of an evaluation, `runs.json` the runs' configs, commits
and environments. An experiment commits both, so it can be redrawn without its runs.

A *setting* is what runs must share to be compared: the test problems and the model to start from.
"""

import argparse
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis import figures, frames
from analysis.frames import OF_RUN, Run
from analysis.stats.errors import noise_variance
from analysis.stats.seeds import common_support
from analysis.tables import read_rows
from vineppo.errors import UserError
from vineppo.run_dir import USER_FILES, read_json, strict_json, write_atomic, write_parquet

FILE_NAME, RUNS_FILE = "evaluations.parquet", "runs.json"
# Seconds of training and sampled tokens, of rollouts and values, are those up to `iteration`.
SCHEMA = pa.schema(
    {
        "run_dir": pa.string(),
        "method": pa.string(),
        "seed": pa.int64(),
        "setting": pa.string(),
        "iteration": pa.int64(),
        "problem_id": pa.string(),
        "num_correct": pa.int64(),
        "num_samples": pa.int64(),
        "elapsed_s": pa.float64(),
        "tokens_sampled": pa.int64(),
    }
)
COSTS = ("elapsed_s", "tokens_sampled")
EQUAL = {"tokens": "tokens_sampled", "seconds": "elapsed_s"}  # --at: the column that says where
RECORDED = ("python", "packages", "source", "hardware")  # of an environment


@dataclass(frozen=True)
class Measured:
    """A method's runs at one place, seeds ascending, S seeds on P problems.

    `noise_S` is the variance of each run's pass@1 from sampling answers, NaN for one answer a
    problem. `num_samples` is the fewest answers behind such a pass@1. `is_extrapolated`: some run
    was first evaluated, after its start, beyond the place.
    """

    seeds: tuple[int, ...]
    rates_SP: np.ndarray
    noise_S: np.ndarray
    num_samples: int
    is_extrapolated: bool

    @property
    def scores_S(self) -> np.ndarray:
        return self.rates_SP.mean(axis=1)


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at",
        default="iteration",
        metavar="|".join(("iteration", *EQUAL, "NUMBER")),
        help="Compare at the last iteration that all runs of a setting share, at equal sampled "
        "tokens, at equal training time, or at the iteration NUMBER. Equal is the most that every "
        "run of the setting reached.",
    )


def read(paths: Sequence[Path]) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows of `SCHEMA` and what `runs.json` holds, of run directories and of folders with both.

    Methods and settings are in order of first sight; seeds, iterations and problems ascend. Raises
    `UserError` for damaged tables and for runs that cannot be compared.
    """
    runs = [frames.read_run(path) for path in paths if not _holds(path)]
    settings = name_settings(runs)
    for setting in dict.fromkeys(settings):
        of_setting = [run for run, its in zip(runs, settings, strict=True) if its == setting]
        frames.check_same_evaluation(of_setting)
        frames.check_same_configs(of_setting)
    frames_of = {
        run.path: _run_rows(run, setting) for run, setting in zip(runs, settings, strict=True)
    }
    parts = [
        (path, _named(frames_of[path] if path in frames_of else _read_table(path)))
        for path in paths
    ]
    rows = frames.concatenated(parts, frames_of, "named").drop(columns="named")
    _check(rows)
    order = ["setting", "method", "seed", "iteration", "problem_id"]
    first_seen = {name: rows[name].unique() for name in ("setting", "method")}
    provenance = _merged(
        [_described(run, setting) for run, setting in zip(runs, settings, strict=True)]
        + [read_json(path / RUNS_FILE) for path in paths if (path / RUNS_FILE).exists()]
    )
    for setting in first_seen["setting"]:
        abouts = [about for about in provenance["runs"] if about["setting"] == setting]
        frames.check_digests({a["run_dir"]: a["problems"] for a in abouts if "problems" in a})
    return frames.in_order(rows, order, **first_seen), provenance


def without(
    names: Sequence[str], rows: pd.DataFrame, provenance: dict[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Both of `read` less the methods `names`, as people call them or as runs are named."""
    labels: dict[str, str] = {}
    for _, of_setting in rows.groupby("setting", sort=False):
        labels |= method_labels(of_setting)
    if unknown := set(names) - {*labels, *labels.values()}:
        held = ", ".join(labels.values())
        raise UserError(f"--without: there is no {unknown.pop()} (only {held})")
    left_out = [method for method, label in labels.items() if {method, label} & set(names)]
    runs = [about for about in provenance["runs"] if about["method"] not in left_out]
    rows = rows[~rows["method"].isin(left_out)]
    return rows, provenance | {"runs": runs}


def write(out: Path, rows: pd.DataFrame, provenance: dict[str, Any]) -> list[Path]:
    """Writes both files; returns their paths."""
    cells = rows.astype(object).where(rows.notna(), None)
    write_parquet(out / FILE_NAME, cells.to_dict("records"), SCHEMA)
    write_atomic(out / RUNS_FILE, strict_json(provenance, indent=1))
    return [out / FILE_NAME, out / RUNS_FILE]


def name_settings(runs: Sequence[Run]) -> list[str]:
    """The setting of each run: what the names of its runs say before the method, or task and model.

    "credit_long" of `credit_long_vineppo` and `credit_long_ppo`. Raises `UserError` for runs of
    different settings that would have the same name, naming the key that differs.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(_digest(_setting_content(run)), []).append(run)
    names = {}
    for key, of_setting in groups.items():
        said = {figures.setting_of(run.name) for run in of_setting} - {""}
        names[key] = said.pop() if len(said) == 1 else _task_and_model(of_setting[0])
    for (key, name), (other_key, other_name) in pairwise(sorted(names.items(), key=lambda x: x[1])):
        if name == other_name:
            both = [groups[key][0], groups[other_key][0]]
            frames.check_alike(both, _setting_content, f"are both of the setting {name}, but")
    return [names[_digest(_setting_content(run))] for run in runs]


def method_labels(rows: pd.DataFrame) -> dict[str, str]:
    """The methods of one setting as people call them, by name.

    A name that no known method is in stands without its setting: "mine" of `long_mine`.
    """
    (setting,) = rows["setting"].unique()
    short = {name: name.removeprefix(f"{setting}_") for name in rows["method"].unique()}
    labels = figures.method_labels(list(short.values()))
    return {name: labels[of_it] for name, of_it in short.items()}


def choose_place(rows: pd.DataFrame, at: str) -> tuple[str, float]:
    """The place to compare the runs of one setting: a column that counts a cost, and an amount.

    `at` is "iteration" (the last one that all runs were evaluated at), an iteration's number, or
    "tokens" or "seconds" (the most that every run reached). Raises `UserError` if some run did not.
    """
    evaluations = rows.drop_duplicates(["run_dir", "iteration"])
    if at in EQUAL:
        column = EQUAL[at]
        reaches = []
        for run_dir, of_run in evaluations.groupby("run_dir"):
            known = of_run[column].dropna().astype(float)
            if len(known) < 2:  # the start has cost nothing, which alone tells nothing
                raise UserError(f"--at {at}: {run_dir} logged no {column}")
            reaches.append(known.to_list())
        support = common_support(reaches)
        if support is None:
            raise UserError(f"--at {at}: no {column} is common to all runs")
        return column, float(support[1])
    held = evaluations.groupby("iteration")["run_dir"].nunique()
    common = list(held.index[held == evaluations["run_dir"].nunique()])
    setting = rows["setting"].iloc[0]
    if not common:
        raise UserError(f"{setting}: its runs were evaluated at no common iteration")
    if at == "iteration":
        return "iteration", float(common[-1])
    if not at.isdecimal():
        raise UserError(f"--at must be iteration, {', '.join(EQUAL)} or a number, got {at!r}")
    if int(at) not in common:
        shown = ", ".join(map(str, common))
        raise UserError(f"{setting}: not all runs were evaluated at {at} (only at {shown})")
    return "iteration", float(at)


def measure(rows: pd.DataFrame, column: str, amount: float) -> Measured:
    """The runs of one method in one setting where their `column` is `amount`.

    Between two evaluations the rates of the problems are on straight lines, which their noise
    follows: of weights w and 1 − w it is w²σ₀² + (1 − w)²σ₁².
    """
    of_seeds = [_at(of_run, column, amount) for _, of_run in rows.groupby("seed")]
    rates, noise, num_samples, extrapolated = zip(*of_seeds, strict=True)
    seeds = tuple(sorted(map(int, rows["seed"].unique())))
    return Measured(seeds, np.array(rates), np.array(noise), min(num_samples), any(extrapolated))


def _at(of_run: pd.DataFrame, column: str, amount: float) -> tuple[np.ndarray, float, int, bool]:
    """Rates by problem, the variance of their mean, the answers, if it is extrapolated."""
    known = of_run.dropna(subset=column)
    costs, wide = zip(*known.groupby(column), strict=True)  # of an evaluation each, ascending
    correct, samples = (
        np.array([evaluation[name].to_numpy(float) for evaluation in wide])
        for name in ("num_correct", "num_samples")
    )
    weights_X = np.array([np.interp(amount, costs, unit) for unit in np.eye(len(costs))])
    used = weights_X > 0
    correct, samples, weights_X = correct[used], samples[used], weights_X[used]
    noise = float("nan")
    if samples.min() > 1:
        of_evaluations_X = noise_variance(correct, samples).sum(axis=1) / samples.shape[1] ** 2
        noise = float(weights_X**2 @ of_evaluations_X)
    extrapolated = len(costs) > 1 and costs[0] == 0 and bool(0 < amount < costs[1])
    return weights_X @ (correct / samples), noise, int(samples.sum(axis=1).min()), extrapolated


def _holds(path: Path) -> bool:
    return (path / FILE_NAME).exists() and not (path / "config.json").exists()


def _run_rows(run: Run, setting: str) -> pd.DataFrame:
    """The rows of one run. Raises `UserError` for an evaluation without counts by problem."""
    curve = frames.learning_curve(run).set_index("iteration")
    parts = []
    for iteration, evaluation in run.evaluations.items():
        place = f"{run.path}: evaluation {iteration}"
        if not (counts_P := evaluation.get("num_correct_P")):
            raise UserError(f"{place} has no num_correct_P, the right answers by problem")
        ids = evaluation.get("problem_ids", [str(index) for index in range(len(counts_P))])
        if len(ids) != len(counts_P):
            raise UserError(f"{place} must have as many problem_ids as num_correct_P")
        about = {name: curve.at[iteration, name] for name in COSTS} | {"iteration": iteration}
        about |= {"num_samples": evaluation["samples_per_problem"], "setting": setting}
        part = pd.DataFrame({"problem_id": ids, "num_correct": counts_P})
        parts.append(part.assign(**about, **run.identity))
    return _typed(pd.concat(parts, ignore_index=True))


def _read_table(folder: Path) -> pd.DataFrame:
    return _typed(pd.DataFrame(read_rows(folder / FILE_NAME, SCHEMA, "evaluation", optional=COSTS)))


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    kinds = {"string": "str", "int64": "int64", "double": "float64"}
    dtypes = {field.name: kinds[str(field.type)] for field in SCHEMA} | {"tokens_sampled": "Int64"}
    return rows[SCHEMA.names].astype(dtypes)


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(named=rows["method"] + " of " + rows["setting"])


def _check(rows: pd.DataFrame) -> None:
    """Every problem once at every evaluation, the same in all of a setting; counts that can be."""
    for row in rows[rows.duplicated(["run_dir", "iteration", "problem_id"])].head(1).itertuples():
        raise UserError(f"{row.run_dir} is given twice, or has problem {row.problem_id} twice")
    wrong = ~rows["num_correct"].between(0, rows["num_samples"]) | (rows["num_samples"] < 1)
    for row in rows[wrong].head(1).itertuples():
        raise UserError(
            f"{row.run_dir}: evaluation {row.iteration} cannot have {row.num_correct} right of "
            f"{row.num_samples} answers to {row.problem_id}"
        )
    keys = ["setting", "run_dir", "iteration"]
    evaluations = rows.groupby(keys, sort=False)["problem_id"].agg(frozenset).reset_index()
    for setting, of_setting in evaluations.groupby("setting", sort=False):
        first = of_setting.iloc[0]
        others = of_setting[[ids != first.problem_id for ids in of_setting["problem_id"]]]
        for row in others.head(1).itertuples():
            raise UserError(
                f"{first.run_dir} at {first.iteration} and {row.run_dir} at {row.iteration} are "
                f"both of the setting {setting}, but were evaluated on different problems"
            )
    frames.check_seeds_once(rows.drop_duplicates(["run_dir", "iteration"]), "setting", "iteration")


def _setting_content(run: Run) -> dict[str, Any]:
    task, model = run.config.get("task") or {}, run.config.get("model") or {}
    return {
        "task": {key: task[key] for key in task if key not in frames.NOT_THE_PROBLEMS},
        "model": {key: model.get(key) for key in ("path", "architecture")},
    }


def _task_and_model(run: Run) -> str:
    content = _setting_content(run)
    parts = [content["task"].get("kind"), Path(content["model"]["path"] or "").name]
    return " ".join(str(part) for part in parts if part) or "all"


def _described(run: Run, setting: str) -> dict[str, Any]:
    """The content of `runs.json` for one run.

    A run names its config, the seed left out, and its environments, one more for every resumption
    elsewhere, by digests: seeds mostly share them.
    """
    config = {key: value for key, value in run.config.items() if key != "seed"}
    resumed = [run.environment, *run.environment.get("resumed", [])]
    recorded = [{key: environment.get(key) for key in RECORDED} for environment in resumed]
    environments = {_digest(environment): environment for environment in recorded}
    about = {name: run.identity[name] for name in OF_RUN} | {"setting": setting}
    about |= {"config": _digest(config), "environments": list(environments)}
    if digest := frames.problems_digest(run):
        about |= {"problems": digest}
    if (run.path / USER_FILES).exists():
        about |= {"own_files": read_json(run.path / USER_FILES)["sha256"]}
    return {"runs": [about], "configs": {_digest(config): config}, "environments": environments}


def _merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All in one, runs by setting, method and seed."""
    merged: dict[str, Any] = {"runs": [run for part in parts for run in part.get("runs", [])]}
    merged["runs"].sort(key=lambda run: tuple(map(str, run.values())))
    for kind in ("configs", "environments"):
        merged[kind] = dict(sorted(entry for part in parts for entry in part.get(kind, {}).items()))
    return merged


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
