"""Runs as data frames, read from the files of their directories. Needs no torch."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats.bootstrap import mean_over_problems
from analysis.tables import Table
from vineppo.errors import UserError
from vineppo.run_dir import RunDir, first_difference
from vineppo.types import question_of

# The keys of a task that say how it is trained on, put and graded; the rest choose its problems.
NOT_THE_PROBLEMS = (
    "train_path", "num_train_problems", "num_test_problems", "demonstrations", "solution_field",
    "prompt", "too_long", "response_template", "grading",
)  # fmt: skip
# Metrics of an iteration's phases, in its order: their names.
PHASES = {
    "time/rollout_s": "rollouts",
    "time/values_s": "values",
    "time/grading_s": "grading",
    "time/logprobs_s": "log-probs",
    "time/update_s": "update",
    "time/sync_s": "weight sync",
    "time/evaluate_s": "evaluation",
    "time/checkpoint_s": "checkpoint",
}
TOTAL = "time/total_s"
# The columns that name the run of a table's row.
OF_RUN = {"run_dir": str, "method": str, "seed": int}


@dataclass(frozen=True)
class Run:
    """One run. `metrics` has a row an iteration, `evaluations` are its JSON files by iteration."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any] = field(default_factory=dict)
    metrics: pd.DataFrame = field(default_factory=pd.DataFrame)
    evaluations: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.config.get("name", self.path.name))

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    @property
    def identity(self) -> dict[str, Any]:
        """The columns `OF_RUN` of tables. Raises `UserError` for a run without a seed."""
        if not isinstance(self.seed, int):
            raise UserError(f"{self.path}: config.json has no seed")
        return {"run_dir": str(self.path), "method": self.name, "seed": self.seed}

    def logged(self, *metrics: str) -> pd.DataFrame:
        """Metrics by iteration, empty where they were not logged."""
        return self.metrics.set_index("iteration").reindex(columns=list(metrics)).astype(float)


def read_run(path: Path) -> Run:
    """The run in the directory `path`.

    Raises `UserError`, one line with the path, for no run directory, a damaged file, and a run
    without a finished iteration or evaluation.
    """
    run_dir = existing_run_dir(path)
    metrics = run_dir.read_metrics() if (path / "metrics.jsonl").exists() else []
    if not metrics:
        raise UserError(f"{path} has no metrics yet: metrics.jsonl holds no iteration")
    iterations = run_dir.iterations("evaluations")
    if not iterations:
        raise UserError(f"{path} has no evaluations yet")
    return Run(
        path=path,
        config=read_config(path),
        environment=run_dir.read_environment(),
        metrics=pd.DataFrame(metrics),
        evaluations={iteration: run_dir.read_evaluation(iteration) for iteration in iterations},
    )


def existing_run_dir(path: Path) -> RunDir:
    """The run directory at `path`, however little it holds. Raises `UserError` for what is none."""
    if not path.is_dir():
        raise UserError(f"{path} is no directory")
    run_dir = RunDir(path)
    if not run_dir.config_path.exists():
        raise UserError(f"{path} holds no run (no config.json)")
    return run_dir


def read_config(path: Path) -> dict[str, Any]:
    """The config of the run at `path`, with the keys that it may be too old to have."""
    return existing_run_dir(path).read_config()


def read_all(
    paths: Sequence[Path], table: Table, of_run: Callable[[Run], pd.DataFrame], method: str
) -> tuple[list[Run], pd.DataFrame]:
    """The runs among `paths`, and the rows of all: `of_run` of a run, or a folder's own `table`."""
    runs = {path: read_run(path) for path in paths if not table.holds(path)}
    parts = [
        (path, table.frame(of_run(runs[path])) if path in runs else table.read(path))
        for path in paths
    ]
    return [runs[path] for path in paths if path in runs], concatenated(parts, runs, method)


def concatenated(
    parts: Sequence[tuple[Path, pd.DataFrame]], run_paths: Collection[Path], method: str
) -> pd.DataFrame:
    """The rows of `parts`, each of a run directory or of a folder with a table.

    `method` is the column that says which rows belong together. Raises `UserError` for a method of
    a table that stands elsewhere too: a table holds no config to compare.
    """
    sources: dict[str, Path | None] = {}  # by method: its table, None for run directories
    for path, frame in parts:
        source = None if path in run_paths else path
        for name in frame[method].unique():
            if sources.setdefault(name, source) != source:
                raise UserError(
                    f"{path} holds {name}, which stands in another table or run too; give either "
                    "its table or its run directories"
                )
    return pd.concat([frame for _, frame in parts], ignore_index=True)


def in_order(rows: pd.DataFrame, by: Sequence[str], **orders: Iterable[str]) -> pd.DataFrame:
    """The rows by the columns `by`; those of `orders` are sorted as these list their values."""
    places = {name: {value: i for i, value in enumerate(order)} for name, order in orders.items()}
    return rows.sort_values(
        list(by),
        key=lambda column: column.map(places[column.name]) if column.name in places else column,
        kind="stable",
        ignore_index=True,
    )


def learning_curve(run: Run) -> pd.DataFrame:
    """The evaluations of a run by iteration, beside what its training had cost by then.

    Columns: iteration, elapsed_s (training time), tokens_sampled (of rollouts and values), pass@1,
    low, high (95 % bootstrap over problems), num_problems, samples_per_problem. Costs are empty
    where they were not logged, low and high of an evaluation without counts by problem.
    """
    rows = []
    for iteration, evaluation in run.evaluations.items():
        _check_evaluation(evaluation, f"{run.path}: evaluation {iteration}")
        num_samples = evaluation["samples_per_problem"]
        row = {"iteration": iteration, "pass@1": evaluation["pass@1"]}
        if counts_P := evaluation.get("num_correct_P"):
            ids = map(question_of, evaluation.get("problem_ids", map(str, range(len(counts_P)))))
            estimate = mean_over_problems([count / num_samples for count in counts_P], list(ids))
            row |= {"low": estimate.low, "high": estimate.high}
        sizes = {"num_problems": evaluation["num_problems"], "samples_per_problem": num_samples}
        rows.append(row | sizes)
    columns = ["iteration", "elapsed_s", "tokens_sampled", "pass@1", "low", "high", *sizes]
    frame = pd.DataFrame(rows).join(_costs(run), on="iteration")
    return frame.reindex(columns=columns)


def phase_seconds(run: Run) -> pd.DataFrame:
    """Each phase's seconds, by iteration, where the time was logged.

    A column a name of `PHASES` and "other", what no phase accounts for.
    """
    logged = run.logged(TOTAL, *PHASES).dropna(subset=[TOTAL]).fillna(0.0)
    phases = logged[list(PHASES)].rename(columns=PHASES)
    # Phases that overlap account for more than the clock shows.
    return phases.assign(other=(logged[TOTAL] - phases.sum(axis=1)).clip(lower=0))


def common_iterations(frame: pd.DataFrame, method: str = "method") -> pd.DataFrame:
    """The rows at iterations that every seed of their method has.

    Raises `UserError` for a method without a common iteration.
    """
    num_seeds = frame.groupby(method)["seed"].transform("nunique")
    shared = frame[frame.groupby([method, "iteration"])["seed"].transform("nunique") == num_seeds]
    for name in frame[method].unique():
        if name not in set(shared[method]):
            raise UserError(f"{name}: its seeds were evaluated at no common iteration")
    return shared


def check_same_tasks(runs: Sequence[Run]) -> None:
    """Refuses runs of different tasks (`UserError`)."""
    check_alike(runs, lambda run: _keys(run, "task"), "are runs of different tasks:")


def check_same_problems(runs: Sequence[Run]) -> None:
    """Refuses runs that are tested on different problems (`UserError`)."""
    complaint = "are tested on different problems:"
    check_alike(runs, lambda run: _keys(run, "task", NOT_THE_PROBLEMS), complaint)
    check_digests({str(run.path): digest for run in runs if (digest := problems_digest(run))})


def problems_digest(run: Run) -> str | None:
    """The digest of its test questions and answers; None in older runs."""
    digests = (evaluation.get("problems_digest") for evaluation in run.evaluations.values())
    return next(filter(None, digests), None)


def check_digests(of_runs: Mapping[str, str]) -> None:
    """Refuses runs of one task with different problems (`UserError`)."""
    for (one, digest), (other, its) in pairwise(of_runs.items()):
        if digest != its:
            raise UserError(f"{one} and {other} are tested on different problems of the same ids")


def check_same_evaluation(runs: Sequence[Run]) -> None:
    """Refuses evaluations that sample differently (`UserError`)."""
    others = {key for run in runs for key in run.config.get("evaluation", {})}
    others -= {"temperature", "top_p", "top_k", "min_p"}
    check_alike(runs, lambda run: _keys(run, "evaluation", others), "are evaluated differently:")


def check_same_configs(runs: Sequence[Run]) -> None:
    """Refuses runs of one name with configs that differ beyond the seed (`UserError`)."""
    for name in dict.fromkeys(run.name for run in runs):
        seeds = [run for run in runs if run.name == name]
        complaint = f"are both named {name} and may differ in their seed alone, but"
        check_alike(seeds, lambda run: run.config | {"seed": None}, complaint)


def check_alike(runs: Sequence[Run], part: Callable[[Run], Any], complaint: str) -> None:
    """Refuses a `part` that differs from the first run's, naming the key (`UserError`)."""
    for run in runs[1:]:
        if (difference := first_difference(part(runs[0]), part(run))) is not None:
            key, there, here = difference
            raise UserError(
                f"{runs[0].path} and {run.path} {complaint} {key} is {there} in the one and {here} "
                "in the other"
            )


def check_seeds_once(rows: pd.DataFrame, *keys: str) -> None:
    """Refuses two rows of a seed of one method at the same `keys` (`UserError`)."""
    for (method, seed, *_), run_dirs in rows.groupby(["method", "seed", *keys], sort=False)[
        "run_dir"
    ]:
        if len(run_dirs) > 1:
            first, other, *_ = run_dirs
            raise UserError(f"{first} and {other} are both seed {seed} of {method}")


def choose_iterations(
    available: Sequence[int], wanted: str, option: str, missing: str
) -> list[int]:
    """Some of `available`, ascending: "all", "last", "ends", "spaced:4" or numbers with commas.

    "ends" are the first, the middle and the last: of 1 … 12 these are 1, 7, 12. "spaced:4" takes
    four, evenly, the first and the last among them: of 0 … 9 it is 0, 3, 6, 9. Raises `UserError`
    naming the `option` for anything else, and beginning with `missing` ("runs/a has no policy") for
    a number that is not available.
    """
    last = len(available) - 1
    if wanted in ("all", "last", "ends"):
        places = {"all": range(last + 1), "last": [last], "ends": [0, len(available) // 2, last]}
        return [available[place] for place in sorted(set(places[wanted]))]
    if spaced := re.fullmatch(r"spaced:([1-9]\d*)", wanted):
        evenly = np.linspace(0, last, int(spaced[1])).round().astype(int)
        return [available[place] for place in np.unique(evenly)]
    if not re.fullmatch(r"\d+(,\d+)*", wanted):
        raise UserError(
            f"{option} must be all, last, ends, spaced:N or numbers with commas, got {wanted!r}"
        )
    numbers = sorted(set(map(int, wanted.split(","))))
    for number in numbers:
        if number not in available:
            held = ", ".join(map(str, available))
            raise UserError(f"{missing} of iteration {number} (only of {held})")
    return numbers


def _keys(run: Run, part: str, left_out: Collection[str] = ()) -> dict[str, Any]:
    """A table of a run's config under its name, so that a difference names the whole key."""
    table = run.config.get(part) or {}
    return {part: {key: table[key] for key in table if key not in left_out}}


def _costs(run: Run) -> pd.DataFrame:
    """Cumulative, by iteration; the start has cost nothing."""
    metrics = run.logged("time/elapsed_s", "tokens/rollout", "tokens/values")
    tokens = metrics["tokens/rollout"] + metrics["tokens/values"].fillna(0)
    costs = {"elapsed_s": metrics["time/elapsed_s"], "tokens_sampled": tokens.cumsum()}
    return pd.concat([pd.DataFrame(dict.fromkeys(costs, 0.0), index=[0]), pd.DataFrame(costs)])


def _check_evaluation(evaluation: dict[str, Any], place: str) -> None:
    """Raises `UserError` for a number that is missing or cannot be."""
    ranges = {"pass@1": (0, 1), "num_problems": (1, np.inf), "samples_per_problem": (1, np.inf)}
    for key, (least, most) in ranges.items():
        number = evaluation.get(key)
        if not isinstance(number, int | float) or not least <= number <= most:
            raise UserError(f"{place}: {key} cannot be {number!r}")
