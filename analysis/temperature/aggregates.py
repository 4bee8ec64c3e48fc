"""What the seeds of an algorithm come to at a training temperature."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.intervals import Estimate, iqm_difference, iqm_over_seeds
from analysis.summary_file import estimate_columns
from analysis.temperature.rows import TRAINING, EvaluationRow


@dataclass(frozen=True)
class AtTemperature:
    """An algorithm trained at a temperature, its seeds by interquartile means.

    `final` is pass@1 of the last policies under the runs' own evaluation. `best` is the highest of
    a run's evaluations: picked by the very noise that it is made of, it is too high, and the more
    so the more evaluations there are. `as_trained` is the last policies' at the temperature of
    training, None where some seed was not evaluated so. `difference` is of `final`, to the first
    algorithm at the same temperature. The last two are those of the final evaluation.
    """

    algorithm: str
    temperature: float
    seeds: list[int]
    last_iteration: int
    evaluation_temperature: float
    num_evaluations: int
    final: Estimate
    best: Estimate
    as_trained: Estimate | None
    difference: Estimate | None
    truncated_frac: Estimate | None
    response_length_mean: Estimate | None


@dataclass(frozen=True)
class AtBoth:
    """The last policies of an algorithm, trained at one temperature and evaluated at another."""

    algorithm: str
    temperature: float
    evaluation_temperature: float
    num_seeds: int
    pass_at_1: Estimate
    truncated_frac: Estimate | None
    response_length_mean: Estimate | None


def by_training_temperature(rows: Sequence[EvaluationRow]) -> list[AtTemperature]:
    """By algorithm and temperature, in the order of the rows."""
    first = rows[0].algorithm
    firsts: dict[float, list[float]] = {}  # by temperature
    results: list[AtTemperature] = []
    for (name, temperature), runs in _runs(rows).items():
        own = [[row for row in of if row.source == TRAINING] for of in runs]
        last = [max(of, key=lambda row: row.iteration) for of in own]
        final_N = [row.pass_at_1 for row in last]
        if name == first:
            firsts[temperature] = final_N
        is_compared = name != first and temperature in firsts
        results.append(
            AtTemperature(
                algorithm=name,
                temperature=temperature,
                seeds=[row.seed for row in last],
                last_iteration=last[0].iteration,
                evaluation_temperature=last[0].evaluation_temperature,
                num_evaluations=len(own[0]),
                final=iqm_over_seeds(final_N),
                best=iqm_over_seeds([max(row.pass_at_1 for row in of) for of in own]),
                as_trained=_over_seeds(
                    [at_end(of).get(temperature) for of in runs], lambda row: row.pass_at_1
                ),
                difference=iqm_difference(final_N, firsts[temperature]) if is_compared else None,
                truncated_frac=_over_seeds(last, lambda row: row.truncated_frac),
                response_length_mean=_over_seeds(last, lambda row: row.response_length_mean),
            )
        )
    return results


def by_both_temperatures(rows: Sequence[EvaluationRow]) -> list[AtBoth]:
    """The same order, then by ascending evaluation temperature, of the seeds evaluated there."""
    results = []
    for (name, temperature), runs in _runs(rows).items():
        ends = [at_end(of) for of in runs]
        for evaluation_temperature in sorted({t for end in ends for t in end}):
            seeds = [end[evaluation_temperature] for end in ends if evaluation_temperature in end]
            results.append(
                AtBoth(
                    algorithm=name,
                    temperature=temperature,
                    evaluation_temperature=evaluation_temperature,
                    num_seeds=len(seeds),
                    pass_at_1=iqm_over_seeds([row.pass_at_1 for row in seeds]),
                    truncated_frac=_over_seeds(seeds, lambda row: row.truncated_frac),
                    response_length_mean=_over_seeds(seeds, lambda row: row.response_length_mean),
                )
            )
    return results


def at_end(run: Sequence[EvaluationRow]) -> dict[float, EvaluationRow]:
    """A run's last policy by evaluation temperature: of several, that with the most samples."""
    last = max(row.iteration for row in run)
    ends: dict[float, EvaluationRow] = {}
    for row in run:
        if row.iteration == last:
            other = ends.setdefault(row.evaluation_temperature, row)
            if row.samples_per_problem > other.samples_per_problem:
                ends[row.evaluation_temperature] = row
    return ends


def table_row(one: AtTemperature | AtBoth) -> dict[str, Any]:
    """A line of a table: an estimate is three cells, a list of seeds one."""
    cells: dict[str, Any] = {}
    for name, value in vars(one).items():
        if name in ESTIMATES:
            cells |= estimate_columns(name, value)
        else:
            cells[name] = " ".join(map(str, value)) if isinstance(value, list) else value
    return cells


ESTIMATES = frozenset(
    (
        "final",
        "best",
        "as_trained",
        "difference",
        "pass_at_1",
        "truncated_frac",
        "response_length_mean",
    )
)


def _runs(rows: Sequence[EvaluationRow]) -> dict[tuple[str, float], list[list[EvaluationRow]]]:
    """The rows of every seed, by algorithm and temperature."""
    groups: dict[tuple[str, float], dict[int, list[EvaluationRow]]] = {}
    for row in rows:
        by_seed = groups.setdefault((row.algorithm, row.temperature), {})
        by_seed.setdefault(row.seed, []).append(row)
    return {key: list(by_seed.values()) for key, by_seed in groups.items()}


def _over_seeds(
    rows: Sequence[EvaluationRow | None], value: Callable[[EvaluationRow], float | None]
) -> Estimate | None:
    """Their interquartile mean; None where a seed has no such number."""
    values = [None if row is None else value(row) for row in rows]
    known = [number for number in values if number is not None]
    return iqm_over_seeds(known) if len(known) == len(values) else None
