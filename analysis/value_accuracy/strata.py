"""Where the errors are: by position in the response, by outcome of the rollout, by true value.

Strata of the true value are made by the measured one, t = c/m, the very number that errors are
taken from. Among states of a high t the noise of t was upwards more often than not, so even the
exact value looks too low there and too high where t is low (regression to the mean), and the
corrected squared error is not unbiased: with p near the edge of a stratum the effect is about the
noise of t, √(p(1 − p)/m) or 0.03 at most of 256 returns. Position and outcome, which no return of
the truth has a part in, have no such flaw.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from analysis.old_tables import estimate_columns
from analysis.stats import errors
from analysis.stats.bootstrap import Sums, bootstrap_sums, ratio
from analysis.value_accuracy.cells import Cell
from analysis.value_accuracy.settings import Settings
from analysis.value_accuracy.states import BOUNDARY

POSITION, OUTCOME, VALUE = "position", "outcome", "value"
NUM_POSITIONS = 5
# The values 0 and 1 apart, where a state is decided as far as m returns can tell.
VALUE_EDGES = (0.0, 0.25, 0.5, 0.75, 1.0)


def stratum_rows(cells: Sequence[Cell], settings: Settings) -> list[dict[str, Any]]:
    """Rows of `value_accuracy_strata.csv`, for the step boundaries; empty strata are left out."""
    return [
        _row(cell.chosen(mask_N), axis, index, name, settings)
        for cell in cells
        if cell.group == BOUNDARY
        for axis, of_axis in strata(cell).items()
        for index, (name, mask_N) in enumerate(of_axis.items())
        if np.any(mask_N)
    ]


def strata(cell: Cell) -> dict[str, dict[str, np.ndarray]]:
    """By axis and name the states of every stratum in order, [N] booleans.

    Position 0.2 is in the second fifth; a true value of 0.25 in "(0, 0.25]".
    """
    # The quotients are those of positions k/5; products would round across an edge.
    edges = np.arange(1, NUM_POSITIONS) / NUM_POSITIONS
    place_N = np.searchsorted(edges, cell.position_N, side="right")
    positions = {
        f"[{i / NUM_POSITIONS:g}, {(i + 1) / NUM_POSITIONS:g})": place_N == i
        for i in range(NUM_POSITIONS)
    }
    is_correct_N = cell.reward_N > 0.5
    truth_N = cell.truths
    is_inner_N = (truth_N > 0) & (truth_N < 1)
    values = {"0": truth_N == 0}
    for low, high in pairwise(VALUE_EDGES):
        name = f"({low:g}, {high:g}{']' if high < 1 else ')'}"
        values[name] = is_inner_N & (truth_N > low) & (truth_N <= high)
    values["1"] = truth_N == 1
    return {
        POSITION: positions,
        OUTCOME: {"incorrect": ~is_correct_N, "correct": is_correct_N},
        VALUE: values,
    }


def _row(cell: Cell, axis: str, index: int, name: str, settings: Settings) -> dict[str, Any]:
    truth = cell.num_correct_N, cell.num_samples
    terms = errors.error_terms(cell.values_N, *truth, settings.threshold)
    terms |= {"floor": cell.floors, "prediction": cell.values_N, "true_value": cell.truths}

    def mean_of(term: str, sums: Sums) -> np.ndarray:
        return ratio(sums[term], sums["one"])

    found = bootstrap_sums(
        terms,
        cell.problem_N,
        {
            "prediction_mean": lambda sums: mean_of("prediction", sums),
            "truth_mean": lambda sums: mean_of("true_value", sums),
            "bias": errors.bias,
            "mae": errors.mae,
            "mae_floor": lambda sums: mean_of("floor", sums),
            "mse_corrected": errors.corrected_mse,
        },
        settings.generator,
        num_resamples=settings.num_resamples,
        level=settings.level,
    )
    row = cell.columns() | {
        "axis": axis,
        "stratum_index": index,
        "stratum": name,
        "num_states": len(cell.values_N),
        "num_problems": len(np.unique(cell.problem_N)),
        "level": settings.level,
    }
    for statistic, estimate in found.items():
        row |= estimate_columns(statistic, estimate)
    return row
