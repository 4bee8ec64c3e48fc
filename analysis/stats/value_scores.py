"""Every number that tells how good predicted values are: errors, correlations, calibration.

Values v of states stand against their measured truths t = c/m. Intervals are over problems. Where a
metric is a floor or a ceiling, it is that of a *K-sample mean*: what a perfect estimator of as many
draws of the state would show against the same noisy truth; without draws, the exact value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from analysis.stats import bootstrap, calibration, correlation, errors
from analysis.stats.bootstrap import Estimate, Sums, SumStatistic, Terms, mean_of, ratio
from vineppo.errors import UserError

CORP_PARTS = ("miscalibration", "discrimination", "uncertainty")


@dataclass(frozen=True)
class Settings:
    """`threshold` is that of `accuracy`, `level` that of all intervals.

    `num_resamples` resamples of problems make an interval, `num_refits` where every resample is
    ranked or fitted anew: Spearman's correlation over all states, the scores, the bands.
    """

    threshold: float = 0.1
    level: float = 0.95
    num_resamples: int = 2000
    num_refits: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise UserError(f"--threshold must be in 0..1, got {self.threshold}")
        if not 0 < self.level < 1:
            raise UserError(f"--level must be between 0 and 1, got {self.level}")
        for name, least in (("num_resamples", 1), ("num_refits", 1), ("seed", 0)):
            if getattr(self, name) < least:
                option = name.replace("_", "-")
                raise UserError(f"--{option} must be at least {least}, got {getattr(self, name)}")

    @property
    def generator(self) -> np.random.Generator:
        """Always new, so that all predictors see the same resamples of the same problems."""
        return np.random.default_rng(self.seed)

    @property
    def sums(self) -> dict[str, Any]:
        return {"num_resamples": self.num_resamples, "level": self.level}

    @property
    def refits(self) -> dict[str, Any]:
        return {"num_resamples": self.num_refits, "level": self.level}


@dataclass(frozen=True)
class Cell:
    """The states on which a number of a table rests: those that one predictor values.

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

    @property
    def log_margin(self) -> float:
        """How far the log score keeps a prediction from 0 and 1 (`calibration.clipped`).

        1/(2n + 2) of a mean of n returns, the fewest here; of others n is the truth's number.
        """
        fewest = self.states["num_returns"].min()
        return float(1 / (2 * (self.num_samples if pd.isna(fewest) else fewest) + 2))

    def where(self, chosen_N: np.ndarray) -> "Cell":
        return replace(self, states=self.states[chosen_N])

    def row(self) -> dict[str, Any]:
        num_problems = self.states["problem"].nunique()
        return self.about | {"num_states": len(self.states), "num_problems": num_problems}


def scores(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Every metric of a cell with its interval over problems; NaN where it is undefined."""
    return (
        error_scores(cell, settings)
        | _split(cell, settings)
        | _within(cell, settings)
        | _refitted(cell, settings)
    )


def pooled_terms(cell: Cell, threshold: float) -> dict[str, np.ndarray]:
    """The terms of errors and of the correlation over all states."""
    terms = errors.error_terms(cell.values, *cell.truth, threshold)
    return terms | correlation.pooled_terms(cell.values, cell.truths)


def within_terms(cell: Cell) -> dict[str, np.ndarray]:
    """The terms of the correlation within problems and of its reliability."""
    return correlation.within_terms(
        cell.values, cell.truths, cell["unit"]
    ) | correlation.within_reliability_terms(*cell.truth, cell["unit"])


def error_scores(
    cell: Cell, settings: Settings, names: Sequence[str] | None = None
) -> dict[str, Estimate]:
    """Errors and the correlation over all states; of these the `names`."""
    terms = pooled_terms(cell, settings.threshold) | {
        "floor": cell.floors,
        "return_variance": errors.return_variance(*cell.truth),
        "prediction": cell.values,
        "true_value": cell.truths,
    }
    k = cell.num_draws or np.inf
    statistics: dict[str, SumStatistic] = {
        "prediction_mean": mean_of("prediction"),
        "truth_mean": mean_of("true_value"),
        "bias": errors.bias,
        "mae": errors.mae,
        "mae_floor": mean_of("floor"),
        "mae_above_floor": lambda sums: ratio(sums["absolute"] - sums["floor"], sums["one"]),
        "mse": errors.mse,
        "mse_corrected": errors.corrected_mse,
        "mse_corrected_floor": lambda sums: ratio(sums["return_variance"], sums["one"]) / k,
        # Σ p(1 − p) / Σ (v − p)² by unbiased estimates of both; NaN where the latter is not
        # positive. Values 0.5, 0.5 of 0 and 2 of 4 returns: (0 + 1/3) / (0.25 − 0.08333) = 2.
        "equivalent_draws": lambda s: ratio(s["return_variance"], s["squared"] - s["noise"]),
        "accuracy": errors.accuracy,
        "explained_variance": errors.explained_variance,
        "explained_variance_corrected": errors.corrected_explained_variance,
        "pearson": correlation.pearson,
        **_attenuated("pearson", correlation.pearson, correlation.reliability, cell),
    }
    wanted = {name: statistics[name] for name in names or statistics}
    return _bootstrapped(cell, terms, wanted, settings)


def _attenuated(
    name: str, statistic: SumStatistic, reliability: SumStatistic, cell: Cell
) -> dict[str, SumStatistic]:
    """The reliability of the truth, the ceiling of a correlation, and the latter without noise."""

    def ceiling(sums: Sums) -> np.ndarray:
        exact = correlation.ceiling(reliability(sums))
        if cell.num_draws is None:
            return exact
        factor = cell.num_draws / cell.num_samples
        return exact * correlation.ceiling(correlation.spearman_brown(reliability(sums), factor))

    def disattenuated(sums: Sums) -> np.ndarray:
        return correlation.disattenuated(statistic(sums), reliability(sums))

    parts = {"reliability": reliability, "ceiling": ceiling, "disattenuated": disattenuated}
    return {f"{name}_{part}": of_part for part, of_part in parts.items()}


def _split(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Squared error of Monte-Carlo values by their own draws; undefined of a single one."""
    if cell.num_draws is None or cell.num_draws < 2:
        return {}
    correct_N = np.round(cell.values * cell.num_draws).astype(int)
    terms = errors.split_error_terms(correct_N, cell.num_draws, *cell.truth)
    statistics = {
        "mse_sampling": errors.sampling_mse,
        "mse_systematic": errors.systematic_mse,
        "mse_sampling_share": errors.sampling_share,
    }
    return _bootstrapped(cell, terms, statistics, settings)


def _within(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Correlations within problems, every state or every problem counting alike."""
    unit_N = cell["unit"]
    statistic, reliability = correlation.within, correlation.within_reliability
    statistics = {"pearson_within": statistic}
    statistics |= _attenuated("pearson_within", statistic, reliability, cell)
    estimates = _bootstrapped(cell, within_terms(cell), statistics, settings)
    ranks = [correlation.ranks_within(of_N, unit_N) for of_N in (cell.values, cell.truths)]
    _, first_of_unit = np.unique(unit_N, return_index=True)
    at_units = replace(cell, states=cell.states.iloc[first_of_unit])
    for name, x_N, y_N in (
        ("pearson", cell.values, cell.truths),
        ("spearman", ranks[0], ranks[1]),
    ):
        terms = bootstrap.mean_terms(correlation.problem_correlations(x_N, y_N, unit_N))
        of_units = {f"{name}_within_mean": bootstrap.mean}
        estimates |= _bootstrapped(at_units, terms, of_units, settings)
    terms = correlation.within_terms(ranks[0], ranks[1], unit_N)
    return estimates | _bootstrapped(cell, terms, {"spearman_within": statistic}, settings)


def _refitted(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Spearman's correlation, and both scores with their CORP parts.

    An isotonic fit finds miscalibration in chance alone, and more in every resample. In simulations
    of 60 problems the percentiles of a critic's, calibrated or not, covered what many problems come
    to in 0 to 2 %; reflected they do in 93 %, and where little is known of calibrated ones (50
    problems, 64 returns) in 83 %. Percentiles of discrimination do in 90 to 95 %.
    """
    spearman = correlation.spearman(cell.values, cell.truths)
    rules = {
        "brier": (calibration.brier, calibration.clipped(cell.values, 0)),
        "log_score": (calibration.log_score, calibration.clipped(cell.values, cell.log_margin)),
    }

    def statistic(weights_N: np.ndarray) -> dict[str, float]:
        numbers = {"spearman": spearman(weights_N)}
        for name, (rule, predictions_N) in rules.items():
            parts = calibration.corp(rule, predictions_N, *cell.truth, weights_N)
            numbers |= {name: parts.score}
            numbers |= {f"{name}_{part}": getattr(parts, part) for part in CORP_PARTS}
        return numbers

    estimates = bootstrap.bootstrap_weights(
        statistic, cell["problem"], settings.generator, **settings.refits
    )
    raised = (f"{name}_miscalibration" for name in rules)
    return estimates | {name: bootstrap.reflected(estimates[name], least=0.0) for name in raised}


def _bootstrapped(
    cell: Cell, terms: Terms, statistics: Mapping[str, SumStatistic], settings: Settings
) -> dict[str, Estimate]:
    problem_N = cell["problem"]
    return bootstrap.bootstrap_sums(
        terms, problem_N, statistics, settings.generator, **settings.sums
    )


def differences(cell: Cell, values_N: np.ndarray, settings: Settings) -> dict[str, Estimate]:
    """MAE, MSE and correlations less those of other values of the same states.

    Both on the same resamples. The noise of the truth is the same on both sides, so that the MSE's
    difference is that of the corrected one.
    """
    both = cell, replace(cell, states=cell.states.assign(prediction=values_N))
    pooled = {"mae": errors.mae, "mse": errors.mse, "pearson": correlation.pearson}
    estimates: dict[str, Estimate] = {}
    for (terms, of_other), statistics in (
        ([pooled_terms(each, settings.threshold) for each in both], pooled),
        (map(within_terms, both), {"pearson_within": correlation.within}),
    ):
        estimates |= bootstrap.bootstrap_difference(
            terms, of_other, cell["problem"], statistics, settings.generator, **settings.sums
        )
    return estimates
