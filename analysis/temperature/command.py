"""The analysis: reads the runs, writes tables, figure and summary."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.intervals import Estimate, iqm_over_seeds
from analysis.summary_file import write_summary
from analysis.tables import write_table
from analysis.temperature.aggregates import (
    AtBoth,
    AtTemperature,
    by_both_temperatures,
    by_training_temperature,
    table_row,
)
from analysis.temperature.figure import draw
from analysis.temperature.rows import TABLE_NAME, EvaluationRow, read_rows

ANALYSIS = "temperature"


def run(paths: list[Path], out: Path) -> None:
    """Writes the evaluations and two tables of what they come to, the figure and the summary.

    Each path is a run directory, or a directory whose temperature_evaluations.csv is drawn again.
    """
    rows = read_rows(paths)
    results, both = by_training_temperature(rows), by_both_temperatures(rows)
    start = start_score(rows)
    tables = {
        TABLE_NAME: [dataclasses.asdict(row) for row in rows],
        "temperature.csv": list(map(table_row, results)),
        "evaluation_temperature.csv": list(map(table_row, both)),
    }
    for name, of in tables.items():
        write_table(out / name, of)
    figure = draw(results, both, start, out)
    content = summary_content(results, both, start)
    for path in [*figure, *(out / name for name in tables), write_summary(out, ANALYSIS, content)]:
        print(path)


def start_score(rows: Sequence[EvaluationRow]) -> Estimate | None:
    """pass@1 of the starting policy over the seeds of its evaluation; None where none evaluated it.

    All runs of a seed evaluated the same policy on the same random numbers: they count once.
    """
    scores = {row.seed: row.pass_at_1 for row in rows if row.iteration == 0}
    return iqm_over_seeds(list(scores.values())) if scores else None


def summary_content(
    results: Sequence[AtTemperature], both: Sequence[AtBoth], start: Estimate | None
) -> dict[str, Any]:
    """By algorithm, then by temperature; differences are to the first algorithm."""
    algorithms: dict[str, Any] = {}
    for one in results:
        named = {
            "final": one.final,
            "best": one.best,
            "as_trained": one.as_trained,
            "difference": one.difference,
            "truncated_frac": one.truncated_frac,
            "response_length_mean": one.response_length_mean,
        }
        known = {name: value for name, value in named.items() if value is not None}
        evaluated = {
            f"evaluated_at_{of.evaluation_temperature:g}": of.pass_at_1
            for of in both
            if (of.algorithm, of.temperature) == (one.algorithm, one.temperature)
        }
        at = algorithms.setdefault(one.algorithm, {})
        at[f"trained_at_{one.temperature:g}"] = {"num_seeds": len(one.seeds), **known, **evaluated}
    return {
        "evaluation_temperature": results[0].evaluation_temperature,
        "last_iteration": results[0].last_iteration,
        "note": "best is the highest of several noisy evaluations, so biased upward; compare final",
        **({} if start is None else {"start": start}),
        "algorithms": algorithms,
    }
