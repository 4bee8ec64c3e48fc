"""Methods: the runs of one config that differ in nothing but their seed, as one curve.

They are read from run directories, or from the table that `learning-curves` wrote of them.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from analysis.intervals import iqm_over_seeds
from analysis.reading import CurvePoint, Run, learning_curve, read_run
from analysis.tables import read_table
from vineppo.errors import UserError
from vineppo.run_dir import first_difference

TABLE_NAME = "learning_curves.csv"
# Of a task: how it is trained on, put and graded. The rest is which problems it has.
NOT_THE_PROBLEMS = (
    "train_path",
    "num_train_problems",
    "num_test_problems",
    "demonstrations",
    "solution_field",
    "prompt",
    "too_long",
    "response_template",
    "grading",
)


@dataclass(frozen=True)
class SeedOfMethod:
    """Which run something belongs to."""

    run_dir: str
    method: str
    seed: int


@dataclass(frozen=True)
class CurveRow(CurvePoint, SeedOfMethod):
    """An evaluation of one run: a row of `learning_curves.csv`."""

    tokens_sampled: int | None
    gradient_steps: int | None = None


@dataclass(frozen=True)
class Method:
    """The evaluations of a method's runs by their seeds, which ascend, each by iteration."""

    name: str
    rows_by_seed: dict[int, list[CurveRow]]

    @property
    def iterations(self) -> list[int]:
        """The iterations at which every seed was evaluated."""
        first, *others = ({row.iteration for row in rows} for rows in self.rows_by_seed.values())
        return sorted(first.intersection(*others))

    @property
    def left_out(self) -> list[int]:
        """The iterations at which only some seeds were evaluated: of runs that have not ended."""
        every = {row.iteration for rows in self.rows_by_seed.values() for row in rows}
        return sorted(every.difference(self.iterations))

    def at(self, iteration: int) -> list[CurveRow]:
        """The evaluations of all seeds at one of `iterations`."""
        return [
            row for rows in self.rows_by_seed.values() for row in rows if row.iteration == iteration
        ]


def read_methods(paths: Sequence[Path]) -> list[Method]:
    """The methods of run directories and of directories that hold a table, in order of first sight.

    Raises `UserError` for what is neither, for runs of one name whose configs differ in more than
    the seed (naming the key), for runs of different tasks or evaluated differently, for a seed that
    is given twice, and for a method of a table that stands elsewhere too: a table holds no config
    to compare.
    """
    runs: list[Run] = []
    rows: list[CurveRow] = []
    tables: dict[str, Path | None] = {}  # by method: its table, None for run directories
    for path in paths:
        table = path / TABLE_NAME
        if table.exists() and not (path / "config.json").exists():
            source, new = path, read_table(table, CurveRow)
        else:
            runs.append(read_run(path))
            source, new = None, curve_rows(runs[-1])
        for row in new:
            if tables.setdefault(row.method, source) != source:
                raise UserError(
                    f"{path} holds {row.method}, which stands in another table or run too; give "
                    "either its table or its run directories"
                )
        rows += new
    check_same_problems(runs)
    check_same_evaluation(runs)
    check_same_configs(runs)
    return group(rows)


def curve_rows(run: Run) -> list[CurveRow]:
    if not isinstance(run.seed, int):
        raise UserError(f"{run.path}: config.json has no seed")
    return [
        CurveRow(run_dir=str(run.path), method=run.name, seed=run.seed, **dataclasses.asdict(point))
        for point in learning_curve(run)
    ]


def check_same_configs(runs: Sequence[Run]) -> None:
    """Refuses runs of one name whose configs differ in more than the seed (`UserError`)."""
    firsts: dict[str, Run] = {}
    for run in runs:
        first = firsts.setdefault(run.name, run)
        difference = first_difference(first.config | {"seed": None}, run.config | {"seed": None})
        if difference is not None:
            key, there, here = difference
            raise UserError(
                f"{first.path} and {run.path} are both named {run.name}, but {key} is {there} in "
                f"the one and {here} in the other; only the seed may differ"
            )


def check_same_problems(runs: Sequence[Run]) -> None:
    """Refuses runs that are tested on the problems of different tasks (`UserError`)."""
    tasks = [
        {
            key: value
            for key, value in run.config.get("task", {}).items()
            if key not in NOT_THE_PROBLEMS
        }
        for run in runs
    ]
    for run, task in zip(runs, tasks, strict=True):
        difference = first_difference({"task": tasks[0]}, {"task": task})
        if difference is not None:
            key, there, here = difference
            raise UserError(
                f"{runs[0].path} and {run.path} are tested on different problems: {key} is {there} "
                f"in the one and {here} in the other"
            )


def check_same_evaluation(runs: Sequence[Run]) -> None:
    """Refuses runs whose evaluations sample at another temperature or top_p (`UserError`)."""
    for run in runs:
        there, here = (
            {key: one.config.get("evaluation", {}).get(key) for key in ("temperature", "top_p")}
            for one in (runs[0], run)
        )
        difference = first_difference({"evaluation": there}, {"evaluation": here})
        if difference is not None:
            raise UserError(
                f"{runs[0].path} and {run.path} are evaluated differently: {difference[0]} is "
                f"{difference[1]} in the one and {difference[2]} in the other"
            )


def group(rows: Sequence[CurveRow]) -> list[Method]:
    """Rows by method and seed. Raises `UserError` for two evaluations of a seed at an iteration."""
    methods: dict[str, dict[int, dict[int, CurveRow]]] = {}
    for row in rows:
        by_iteration = methods.setdefault(row.method, {}).setdefault(row.seed, {})
        other = by_iteration.setdefault(row.iteration, row)
        if other is not row:
            raise UserError(
                f"{other.run_dir} and {row.run_dir} are both seed {row.seed} of {row.method}"
            )
    grouped = [
        Method(name, {seed: [of[i] for i in sorted(of)] for seed, of in sorted(by_seed.items())})
        for name, by_seed in methods.items()
    ]
    for method in grouped:
        if not method.iterations:
            raise UserError(f"{method.name}: its seeds were evaluated at no common iteration")
    return grouped


def method_curve(method: Method) -> list[CurvePoint]:
    """The interquartile mean of pass@1 over seeds at each iteration, beside the mean costs.

    Of a method with one seed it is the curve of that run, its intervals over problems. A cost is
    None where a seed did not log it.
    """
    curve: list[CurvePoint] = []
    for iteration in method.iterations:
        rows = method.at(iteration)
        if len(rows) == 1:
            curve += rows
            continue
        estimate = iqm_over_seeds([row.pass_at_1 for row in rows])
        curve.append(
            CurvePoint(
                iteration=iteration,
                elapsed_s=_mean_cost([row.elapsed_s for row in rows]),
                tokens_sampled=_mean_cost([row.tokens_sampled for row in rows]),
                pass_at_1=estimate.value,
                low=estimate.low,
                high=estimate.high,
                num_problems=rows[0].num_problems,
                samples_per_problem=rows[0].samples_per_problem,
                gradient_steps=_mean_cost([row.gradient_steps for row in rows]),
            )
        )
    return curve


def _mean_cost(costs: Sequence[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return fmean(known) if len(known) == len(costs) else None
