"""Runs as the analyses see them, read from the files of their directories. Needs no torch."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.intervals import BOOTSTRAP_SEED, bootstrap_interval
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.run_dir.older import with_added_keys
from vineppo.run_dir.tables import read_parquet

DIAGNOSTICS = "value_diagnostics"
DIAGNOSTICS_LISTS = ("values", "returns", "advantages")


@dataclass(frozen=True)
class Run:
    """One run. `metrics` are its rows by iteration, `evaluations` its JSON files by iteration."""

    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    metrics: list[dict[str, Any]]
    evaluations: dict[int, dict[str, Any]]

    @property
    def name(self) -> str:
        return str(self.config.get("name", self.path.name))

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Iterations and values of a metric where it was logged and finite."""
        rows = [row for row in self.metrics if row.get(name) is not None]
        return [row["iteration"] for row in rows], [row[name] for row in rows]


@dataclass(frozen=True)
class CurvePoint:
    """An evaluation of a run, or of a method's runs together, with what it had cost by then.

    `elapsed_s` is training time, `tokens_sampled` counts those of rollouts and values,
    `gradient_steps` the policy's updates; None where it is not known. `low` and `high` bound the
    95 % bootstrap interval: of a run over problems, None where the evaluation holds no counts per
    problem; of several runs over seeds.
    """

    iteration: int
    elapsed_s: float | None
    tokens_sampled: float | None
    pass_at_1: float
    low: float | None
    high: float | None
    num_problems: int
    samples_per_problem: int
    gradient_steps: float | None = None


def read_run(path: Path) -> Run:
    """The run in the directory `path`.

    Raises `UserError`, one line with the path, for what is no run directory, a run without a
    finished iteration or without an evaluation, and a damaged file.
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
        metrics=metrics,
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
    return with_added_keys(existing_run_dir(path).read_config())


def learning_curve(run: Run) -> list[CurvePoint]:
    """The evaluations of a run, by iteration, beside the cumulative cost of its training."""
    elapsed, tokens = _cumulative_costs(run)
    steps = gradient_steps(run)
    points = []
    for iteration, evaluation in run.evaluations.items():
        _check_evaluation(evaluation, f"{run.path}: evaluation {iteration}")
        num_samples = evaluation["samples_per_problem"]
        counts_P = evaluation.get("num_correct_P")
        low, high = None, None
        if counts_P:
            rates_P = [count / num_samples for count in counts_P]
            low, high = bootstrap_interval(rates_P, BOOTSTRAP_SEED)
        points.append(
            CurvePoint(
                iteration=iteration,
                elapsed_s=elapsed.get(iteration),
                tokens_sampled=tokens.get(iteration),
                pass_at_1=evaluation["pass@1"],
                low=low,
                high=high,
                num_problems=evaluation["num_problems"],
                samples_per_problem=num_samples,
                gradient_steps=steps.get(iteration),
            )
        )
    return points


def _check_evaluation(evaluation: dict[str, Any], place: str) -> None:
    """Raises `UserError` for what `vineppo` cannot have written: missing, or out of its range."""

    def is_whole(number: Any, least: int) -> bool:
        return isinstance(number, int) and number >= least

    for key in ("pass@1", "num_problems", "samples_per_problem"):
        if key not in evaluation:
            raise UserError(f"{place} has no {key!r}")
    pass_at_1, num_samples = evaluation["pass@1"], evaluation["samples_per_problem"]
    counts_P = evaluation.get("num_correct_P") or []
    wrong = {
        "pass@1": not isinstance(pass_at_1, int | float) or not 0 <= pass_at_1 <= 1,
        "num_problems": not is_whole(evaluation["num_problems"], 1),
        "samples_per_problem": not is_whole(num_samples, 1),
        "num_correct_P": not isinstance(counts_P, list)
        or not all(is_whole(count, 0) and count <= num_samples for count in counts_P),
    }
    for key, is_wrong in wrong.items():
        if is_wrong:
            raise UserError(f"{place}: {key} cannot be {evaluation[key]!r}")


def gradient_steps(run: Run) -> dict[int, int]:
    """The policy's updates up to each iteration; nothing where the config does not tell.

    An iteration makes num_epochs · ⌈sequences / batch_size⌉ of them, less those that it skipped
    (`policy/skipped_updates`), and none while the critic warms up. Of supervised fine-tuning an
    iteration is one. 256 rollouts in batches of 100, twice: 6.
    """
    try:
        an_iteration = _updates_of_an_iteration(run.config)
    except KeyError:
        return {}
    num_warmup = (run.config.get("critic") or {}).get("warmup_iterations", 0)
    steps = {0: 0}
    total = 0
    for row in run.metrics:
        if row["iteration"] > num_warmup:
            total += an_iteration - (row.get("policy/skipped_updates") or 0)
        steps[row["iteration"]] = total
    return steps


def read_value_diagnostics(path: Path, iteration: int, axis: str) -> list[dict[str, Any]]:
    """The rows of one `axis` ("position", "percentile") of a critic run's table of an iteration.

    A row is a `bin` of the axis, of correct responses or of others (`is_correct`), with `count`
    tokens, whose `values` are the critic's before each, `returns` the rewards to go and
    `advantages` raw. Raises `UserError` naming the file, which may be missing, damaged, of other
    columns or lists of another length than `count`.
    """
    table = path / DIAGNOSTICS / f"iter_{iteration:06d}.parquet"
    rows = read_parquet(table)
    if not rows:
        raise UserError(f"{table} holds no row")
    for column in ("axis", "bin", "is_correct", "count", *DIAGNOSTICS_LISTS):
        if column not in rows[0]:
            raise UserError(f"{table} has no column {column}")
    for number, row in enumerate(rows, start=1):
        for column in DIAGNOSTICS_LISTS:
            if len(row[column] or ()) != row["count"]:
                raise UserError(f"{table}, row {number}: {column} must hold `count` numbers")
    return [row for row in rows if row["axis"] == axis]


def diagnostics_iterations(path: Path) -> list[int]:
    """The iterations with value diagnostics, ascending. Raises `UserError` where there are none."""
    iterations = existing_run_dir(path).iterations(DIAGNOSTICS)
    if not iterations:
        raise UserError(f"{path} has no {DIAGNOSTICS}/ (only runs with a critic write them)")
    return iterations


def labels(runs: list[Run]) -> list[str]:
    """A name for each run that tells it from the others: its name, then seed, then directory."""
    for candidates in (
        [run.name for run in runs],
        [f"{run.name}, seed {run.seed}" for run in runs],
    ):
        if max(Counter(candidates).values()) == 1:
            return candidates
    return [str(run.path) for run in runs]


def _updates_of_an_iteration(config: dict[str, Any]) -> int:
    optimization = config["optimization"]
    if "credit" not in config:
        return 1
    sequences = config["rollouts"]["num_prompts"] * config["rollouts"]["num_samples"]
    return optimization["num_epochs"] * -(-sequences // optimization["batch_size"])


def _cumulative_costs(run: Run) -> tuple[dict[int, float], dict[int, int]]:
    """Training time in s and sampled tokens by iteration; the start has cost nothing."""
    elapsed, tokens = {0: 0.0}, {0: 0}
    total = 0
    for row in run.metrics:
        iteration = row["iteration"]
        if row.get("time/elapsed_s") is not None:
            elapsed[iteration] = row["time/elapsed_s"]
        if row.get("tokens/rollout") is not None:
            total += row["tokens/rollout"] + (row.get("tokens/values") or 0)
            tokens[iteration] = total
    return elapsed, tokens
