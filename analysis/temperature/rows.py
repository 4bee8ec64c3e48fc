"""The evaluations of a temperature sweep, by algorithm and training temperature of the config."""

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.methods import check_same_evaluation, check_same_problems
from analysis.reading import Run, read_run
from analysis.tables import read_table
from vineppo.errors import UserError
from vineppo.run_dir import first_difference
from vineppo.run_dir.directory import read_other_evaluations

TABLE_NAME = "temperature_evaluations.csv"
NAMES = {
    "vine": "VinePPO",
    "gae": "PPO",
    "grpo": "GRPO",
    "rloo": "RLOO",
    "reinforce_plus_plus": "REINFORCE++",
    "reinforce_plus_plus_baseline": "REINFORCE++ baseline",
    "remax": "ReMax",
}
TRAINING, AFTERWARDS = "training", "evaluate"


@dataclass(frozen=True)
class EvaluationRow:
    """An evaluation of a run that was trained at `temperature`.

    `source` is "training" for the run's own evaluations and "evaluate" for those that
    `vineppo evaluate` made of its last policy.
    """

    run_dir: str
    algorithm: str
    temperature: float
    seed: int
    iteration: int
    source: str
    evaluation_temperature: float
    pass_at_1: float
    truncated_frac: float | None
    response_length_mean: float | None
    num_problems: int
    samples_per_problem: int


def read_rows(paths: Sequence[Path]) -> list[EvaluationRow]:
    """The evaluations of run directories and of directories that hold a table.

    Raises `UserError`: for what is neither, runs on different problems or evaluated differently,
    runs of one algorithm whose configs differ in more than name, seed and training temperature
    (naming the key) or that got to different iterations, a seed given twice, and an algorithm of a
    table that stands elsewhere too.
    """
    runs: list[Run] = []
    rows: list[EvaluationRow] = []
    tables: dict[str, Path | None] = {}  # by algorithm: its table, None for run directories
    for path in paths:
        if (path / TABLE_NAME).exists() and not (path / "config.json").exists():
            source, new = path, read_table(path / TABLE_NAME, EvaluationRow)
        else:
            runs.append(read_run(path))
            source, new = None, evaluation_rows(runs[-1])
        for row in new:
            if tables.setdefault(row.algorithm, source) != source:
                raise UserError(
                    f"{path} holds {row.algorithm}, which stands in another table or run too; give "
                    "either its table or its run directories"
                )
        rows += new
    check_same_problems(runs)
    check_same_evaluation(runs)
    _check_same_configs(runs)
    _check_ends(rows)
    return ordered(rows)


def ordered(rows: Sequence[EvaluationRow]) -> list[EvaluationRow]:
    """By algorithm in order of first sight, temperature, seed; those of the training first."""
    names = list(dict.fromkeys(row.algorithm for row in rows))

    def place(row: EvaluationRow) -> tuple[float, ...]:
        is_after = row.source != TRAINING
        number = names.index(row.algorithm)
        after = (is_after, row.iteration, row.evaluation_temperature)
        return (number, row.temperature, row.seed, *after)

    return sorted(rows, key=place)


def evaluation_rows(run: Run) -> list[EvaluationRow]:
    """The run's own evaluations, and those made afterwards of its last policy.

    What was made afterwards with another top_p, or on fewer or other problems, is left out: it
    differs in more than the temperature.
    """
    last = max(run.evaluations)
    rows = [_row(run, i, TRAINING, of, f"evaluation {i}") for i, of in run.evaluations.items()]
    own = run.evaluations[last]
    others = read_other_evaluations(run.path, last)
    return rows + [
        _row(run, last, AFTERWARDS, of, f"evaluations/{name}")
        for name, of in others.items()
        if all(of.get(key) == own.get(key) for key in ("top_p", "num_problems", "task"))
    ]


def algorithm(config: dict[str, Any]) -> str:
    """The credit's name, and the critic's part in it where that is not the usual one.

    "VinePPO", "PPO"; "PPO, shared critic", "VinePPO, critic measured".
    """
    kind, critic = config["credit"]["kind"], config.get("critic")
    name = NAMES.get(kind, kind)
    if critic is None:
        return name
    if kind != "gae":
        return f"{name}, critic measured"
    return f"{name}, shared critic" if critic["kind"] == "shared" else name


def _row(
    run: Run, iteration: int, source: str, evaluation: dict[str, Any], place: str
) -> EvaluationRow:
    if not isinstance(run.seed, int):
        raise UserError(f"{run.path}: config.json has no seed")
    try:
        temperature, name = float(run.config["sampling"]["temperature"]), algorithm(run.config)
    except KeyError as error:
        raise UserError(f"{run.path}: config.json has no {error}") from None
    try:
        return EvaluationRow(
            run_dir=str(run.path),
            algorithm=name,
            temperature=temperature,
            seed=run.seed,
            iteration=iteration,
            source=source,
            evaluation_temperature=float(evaluation["temperature"]),
            pass_at_1=evaluation["pass@1"],
            truncated_frac=evaluation.get("truncated_frac"),
            response_length_mean=evaluation.get("response_length_mean"),
            num_problems=evaluation["num_problems"],
            samples_per_problem=evaluation["samples_per_problem"],
        )
    except KeyError as error:
        raise UserError(f"{run.path}: {place} has no {error}") from None


def _check_same_configs(runs: Sequence[Run]) -> None:
    firsts: dict[str, Run] = {}
    for run in runs:
        name = algorithm(run.config)
        first = firsts.setdefault(name, run)
        difference = first_difference(_without(first.config), _without(run.config))
        if difference is not None:
            key, there, here = difference
            raise UserError(
                f"{first.path} and {run.path} are both {name}, but {key} is {there} in the one and "
                f"{here} in the other; only name, seed and sampling.temperature may differ"
            )


def _without(config: dict[str, Any]) -> dict[str, Any]:
    """The config but for what tells the runs of an algorithm apart."""
    masked = copy.deepcopy(config) | {"name": None, "seed": None}
    masked["sampling"]["temperature"] = None
    return masked


def _check_ends(rows: Sequence[EvaluationRow]) -> None:
    """Every seed once, and all of an algorithm up to the same iteration."""
    for row, count in Counter(rows).items():
        if count > 1:
            raise UserError(f"{row.run_dir} is given {count} times")
    ends: dict[tuple[str, float, int], tuple[str, int]] = {}
    for row in rows:
        key = (row.algorithm, row.temperature, row.seed)
        run_dir, last = ends.setdefault(key, (row.run_dir, row.iteration))
        if run_dir != row.run_dir:
            raise UserError(
                f"{run_dir} and {row.run_dir} are both seed {row.seed} of {row.algorithm} at "
                f"temperature {row.temperature:g}"
            )
        ends[key] = run_dir, max(last, row.iteration)
    trained = {row.run_dir for row in rows if row.source == TRAINING}
    firsts: dict[str, tuple[str, int]] = {}
    for (name, _, _), (run_dir, last) in ends.items():
        if run_dir not in trained:
            raise UserError(f"{run_dir} has no evaluation of its training")
        first_dir, first_last = firsts.setdefault(name, (run_dir, last))
        if last != first_last:
            raise UserError(
                f"{first_dir} was evaluated up to iteration {first_last} and {run_dir} up to "
                f"{last}; finish the one or leave it out"
            )
