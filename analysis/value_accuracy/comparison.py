"""Predictors against the fresh Monte-Carlo estimate, state by state: the table of differences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from analysis.old_tables import estimate_columns
from analysis.stats import correlation, errors
from analysis.stats.bootstrap import Estimate, SumStatistic, Terms, bootstrap_difference
from analysis.value_accuracy.cells import Cell
from analysis.value_accuracy.predictors import baseline_of
from analysis.value_accuracy.scores import pooled_terms, within_terms
from analysis.value_accuracy.settings import Settings

Statistics = Mapping[str, SumStatistic]
POOLED = {
    "mae": errors.mae,
    # The noise of the truth is the same on both sides: this is the difference of the corrected one.
    "mse": errors.mse,
    "pearson": correlation.pearson,
}
WITHIN = {"pearson_within": correlation.within}


def difference_rows(cells: Sequence[Cell], settings: Settings) -> list[dict[str, Any]]:
    """Rows of `value_accuracy_differences.csv`: each predictor minus `predictors.baseline_of`.

    On the states where both have a prediction and the same resamples of problems.
    """
    places: dict[tuple[str, str, int, str], list[Cell]] = {}
    for cell in cells:
        key = cell.name, cell.seed, cell.checkpoint, cell.group
        places.setdefault(key, []).append(cell)
    rows = []
    for of_place in places.values():
        name = baseline_of([cell.predictor for cell in of_place])
        for baseline in (cell for cell in of_place if cell.predictor == name):
            for cell in of_place:
                if cell is not baseline:
                    rows += _row(cell, baseline, settings)
    return rows


def _row(cell: Cell, baseline: Cell, settings: Settings) -> list[dict[str, Any]]:
    """One row, none without a common state."""
    places = {key: place for place, key in enumerate(baseline.key_N)}
    common = [(place, places[key]) for place, key in enumerate(cell.key_N) if key in places]
    if not common:
        return []
    one, other = (
        of.chosen(np.array(index))
        for of, index in zip((cell, baseline), zip(*common, strict=True), strict=True)
    )
    row = cell.columns() | {
        "group": cell.group,
        "baseline": baseline.predictor,
        "num_states": len(one.values_N),
        "num_problems": len(np.unique(one.problem_N)),
        "level": settings.level,
    }
    for name, estimate in differences(one, other, settings).items():
        row |= estimate_columns(f"{name}_difference", estimate)
    return [row]


def differences(cell: Cell, baseline: Cell, settings: Settings) -> dict[str, Estimate]:
    """MAE, MSE and correlations of `cell` minus those of `baseline`, on the same states."""

    def difference(terms: Terms, of_baseline: Terms, statistics: Statistics) -> dict[str, Estimate]:
        return bootstrap_difference(
            terms,
            of_baseline,
            cell.problem_N,
            statistics,
            settings.generator,
            num_resamples=settings.num_resamples,
            level=settings.level,
        )

    terms, of_baseline = (pooled_terms(of, settings.threshold) for of in (cell, baseline))
    found = difference(terms, of_baseline, POOLED)
    return found | difference(within_terms(cell), within_terms(baseline), WITHIN)
