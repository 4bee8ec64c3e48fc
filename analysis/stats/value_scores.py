"""Every number that tells how good predicted values are: errors and correlations.

Values v of states stand against their measured truths t = c/m. Intervals are over problems.
`mae_floor` is the error of a *K-sample mean*: a perfect estimator with as many draws of the state,
against the same noisy truth. Without draws, it is the exact value's error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats import correlation, errors
from analysis.stats.bootstrap import (
    BOOTSTRAP_SEED,
    LEVEL,
    Estimate,
    SumStatistic,
    bootstrap_sums,
    mean_of,
    ratio,
)

THRESHOLD = 0.1  # of `accuracy`: a value is accurate with at most this |error|
NUM_RESAMPLES = 2000


@dataclass(frozen=True)
class Cell:
    """The states behind a number of a table: those that one predictor values.

    `about` are the columns `OF_STATES`, `is_whole` is False of one of several seeds. The bootstrap
    draws problems: one that several seeds met is one. Within a unit, a problem of one seed, there
    is one policy.
    """

    about: dict[str, Any]
    is_whole: bool
    num_draws: int | None
    states: pd.DataFrame

    def __getitem__(self, column: str) -> np.ndarray:
        return self.states[column].to_numpy()

    @cached_property
    def values(self) -> np.ndarray:
        return self["prediction"].astype(float)

    @property
    def truth(self) -> tuple[np.ndarray, int]:
        """num_correct_N and num_samples."""
        return self["num_correct"], self.num_samples

    @property
    def num_samples(self) -> int:
        return int(self.states["num_samples"].iloc[0])

    @cached_property
    def truths(self) -> np.ndarray:
        """The measured values t = c/m, [N]."""
        return self["num_correct"] / self.num_samples

    @cached_property
    def floors(self) -> np.ndarray:
        """E|v − t| of a perfect v, [N]: the mean of K draws, or p itself where there are none."""
        values, place_N = np.unique(self.truths, return_inverse=True)
        if self.num_draws is None:
            return errors.expected_absolute_error(values, self.num_samples, None)[place_N]
        return errors.expected_absolute_error(values, self.num_draws, self.num_samples)[place_N]

    def where(self, chosen_N: np.ndarray) -> "Cell":
        return replace(self, states=self.states[chosen_N])

    def row(self) -> dict[str, Any]:
        num_problems = self.states["problem"].nunique()
        return self.about | {"num_states": len(self.states), "num_problems": num_problems}


def pooled_terms(cell: Cell) -> dict[str, np.ndarray]:
    """The terms of errors and of the correlation over all states."""
    terms = errors.error_terms(cell.values, *cell.truth, THRESHOLD)
    return terms | correlation.pooled_terms(cell.values, cell.truths)


def within_terms(cell: Cell) -> dict[str, np.ndarray]:
    """The terms of the correlation within problems."""
    return correlation.within_terms(cell.values, cell.truths, cell["unit"])


def difference_terms(cell: Cell) -> dict[str, np.ndarray]:
    """The terms of the correlation of changes from a step to the next."""
    noise_N = cell.truths * (1 - cell.truths) / (cell.num_samples - 1)
    rollout_N = cell.states.groupby(["unit", "rollout_index"]).ngroup().to_numpy()
    return correlation.difference_terms(
        cell.values, cell.truths, noise_N, rollout_N, cell["step_index"]
    )


def scores(
    cell: Cell, names: Sequence[str] | None = None, num_resamples: int = NUM_RESAMPLES
) -> dict[str, Estimate]:
    """The metrics of a cell, or the `names` of them, with intervals; NaN where undefined."""
    terms = pooled_terms(cell) | {
        "floor": cell.floors,
        "return_variance": errors.return_variance(*cell.truth),
        "prediction": cell.values,
        "true_value": cell.truths,
    }
    statistics: dict[str, SumStatistic] = {
        "prediction_mean": mean_of("prediction"),
        "truth_mean": mean_of("true_value"),
        "bias": errors.bias,
        "mae": errors.mae,
        "mae_floor": mean_of("floor"),
        "mse_corrected": errors.corrected_mse,
        # Σ p(1 − p) / Σ (v − p)² by unbiased estimates of both; NaN where the latter is not
        # positive. Values 0.5, 0.5 of 0 and 2 of 4 returns: (0 + 1/3) / (0.25 − 0.08333) = 2.
        "equivalent_draws": lambda s: ratio(s["return_variance"], s["squared"] - s["noise"]),
        "accuracy": errors.accuracy,
        "explained_variance": errors.explained_variance,
        "explained_variance_corrected": errors.corrected_explained_variance,
        "pearson": correlation.pearson,
    }

    def resampled(terms: dict[str, np.ndarray], of: dict[str, SumStatistic]) -> dict[str, Estimate]:
        # Always anew, so that all predictors see the same resamples of the same problems.
        generator = np.random.default_rng(BOOTSTRAP_SEED)
        return bootstrap_sums(
            terms, cell["problem"], of, generator, num_resamples=num_resamples, level=LEVEL
        )

    if names is not None:
        return resampled(terms, {name: statistics[name] for name in names})
    return (
        resampled(terms, statistics)
        | resampled(within_terms(cell), {"pearson_within": correlation.within})
        | resampled(difference_terms(cell), {"pearson_differences": correlation.differences})
    )
