"""What a predictor's values are worth on the states of a cell: the main table.

Where a column names a floor or a ceiling, it is what a *perfect* estimator of as many draws of the
state would show against the same noisy truth; for a predictor that is no Monte-Carlo estimate of
the state, what the exact value would show.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.old_tables import estimate_columns
from analysis.stats import correlation, errors
from analysis.stats.bootstrap import (
    Estimate,
    Sums,
    SumStatistic,
    bootstrap_sums,
    bootstrap_weights,
    mean,
    mean_terms,
    ratio,
    reflected,
)
from analysis.stats.calibration import brier, clipped, corp, log_score
from analysis.stats.errors import return_variance
from analysis.value_accuracy.cells import Cell
from analysis.value_accuracy.settings import Settings

CORP_PARTS = ("miscalibration", "discrimination", "uncertainty")


def score_row(cell: Cell, settings: Settings) -> dict[str, Any]:
    """A row of `value_accuracy.csv`."""
    row = cell.columns() | {
        "group": cell.group,
        "num_states": len(cell.values_N),
        "num_problems": len(np.unique(cell.problem_N)),
        "num_left_out": cell.num_left_out,
        "level": settings.level,
        "threshold": settings.threshold,
        "log_margin": cell.log_margin,
    }
    for name, estimate in scores(cell, settings).items():
        row |= estimate_columns(name, estimate)
    return row


def scores(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Every statistic of a cell with its interval over problems; NaN where it is undefined."""
    return (
        _errors(cell, settings)
        | _split(cell, settings)
        | _within(cell, settings)
        | _refitted(cell, settings)
    )


def pooled_terms(cell: Cell, threshold: float) -> dict[str, np.ndarray]:
    """The terms of errors and of the correlation over all states."""
    truth = cell.num_correct_N, cell.num_samples
    return (
        errors.error_terms(cell.values_N, *truth, threshold)
        | correlation.pooled_terms(cell.values_N, cell.truths)
        | correlation.reliability_terms(*truth)
    )


def within_terms(cell: Cell) -> dict[str, np.ndarray]:
    """The terms of the correlation within problems and of its reliability."""
    truth = cell.num_correct_N, cell.num_samples, cell.unit_N
    return correlation.within_terms(
        cell.values_N, cell.truths, cell.unit_N
    ) | correlation.within_reliability_terms(*truth)


def equivalent_draws(sums: Sums) -> np.ndarray:
    """K of the perfect Monte-Carlo estimate with this squared error: Σ p(1 − p) / Σ (v − p)².

    Σ over the unbiased estimates of both (`errors.return_variance`, `corrected_mse`). 9 on
    average of MC with 9 draws; NaN where the corrected error is not positive.

    Values 0.5, 0.5 of 0 and 2 of 4 returns: (0 + 1/3) / (0.25 − 0.08333) = 2.
    """
    return ratio(sums["return_variance"], sums["squared"] - sums["noise"])


def _errors(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    returns = return_variance(cell.num_correct_N, cell.num_samples)
    terms = pooled_terms(cell, settings.threshold)
    terms |= {"floor": cell.floors, "return_variance": returns}
    num_draws = cell.num_draws or np.inf
    statistics: dict[str, SumStatistic] = {
        "bias": errors.bias,
        "mae": errors.mae,
        "mae_floor": lambda sums: ratio(sums["floor"], sums["one"]),
        "mae_above_floor": lambda sums: ratio(sums["absolute"] - sums["floor"], sums["one"]),
        "mse": errors.mse,
        "mse_corrected": errors.corrected_mse,
        "mse_corrected_floor": lambda s: ratio(s["return_variance"], s["one"]) / num_draws,
        "equivalent_draws": equivalent_draws,
        "accuracy": errors.accuracy,
        "explained_variance": errors.explained_variance,
        "explained_variance_corrected": errors.corrected_explained_variance,
        "pearson": correlation.pearson,
        **_attenuated("pearson", correlation.pearson, correlation.reliability, cell),
    }
    return _bootstrapped(terms, cell, statistics, settings)


def _attenuated(
    name: str, statistic: SumStatistic, reliability: SumStatistic, cell: Cell
) -> dict[str, SumStatistic]:
    """The reliability of the truth, the ceiling of a correlation, and the latter without noise."""
    draws_per_sample = None if cell.num_draws is None else cell.num_draws / cell.num_samples

    def ceiling(sums: Sums) -> np.ndarray:
        exact = correlation.ceiling(reliability(sums))
        if draws_per_sample is None:
            return exact
        own = correlation.spearman_brown(reliability(sums), draws_per_sample)
        return exact * correlation.ceiling(own)

    return {
        f"{name}_reliability": reliability,
        f"{name}_ceiling": ceiling,
        f"{name}_disattenuated": lambda sums: correlation.disattenuated(
            statistic(sums), reliability(sums)
        ),
    }


def _split(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Squared error of Monte-Carlo values by their own draws; undefined of a single one."""
    statistics = {
        "mse_sampling": errors.sampling_mse,
        "mse_systematic": errors.systematic_mse,
        "mse_sampling_share": errors.sampling_share,
    }
    if cell.num_draws is None or cell.num_draws < 2:
        return {name: Estimate(np.nan, None, None) for name in statistics}
    correct_N = np.round(cell.values_N * cell.num_draws).astype(int)
    terms = errors.split_error_terms(
        correct_N, cell.num_draws, cell.num_correct_N, cell.num_samples
    )
    return _bootstrapped(terms, cell, statistics, settings)


def _within(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Correlations within problems, every state or every problem counting alike."""
    statistic, reliability = correlation.within, correlation.within_reliability
    parts = {"pearson_within": statistic}
    parts |= _attenuated("pearson_within", statistic, reliability, cell)
    found = _bootstrapped(within_terms(cell), cell, parts, settings)
    ranks = [correlation.ranks_within(of, cell.unit_N) for of in (cell.values_N, cell.truths)]
    by_name = {
        "pearson_within_mean": (cell.values_N, cell.truths),
        "spearman_within_mean": (ranks[0], ranks[1]),
    }
    _, first_of_unit = np.unique(cell.unit_N, return_index=True)
    for name, (x_N, y_N) in by_name.items():
        terms = mean_terms(correlation.problem_correlations(x_N, y_N, cell.unit_N))
        at_unit = cell.chosen(first_of_unit)
        found |= _bootstrapped(terms, at_unit, {name: mean}, settings)
    terms = correlation.within_terms(ranks[0], ranks[1], cell.unit_N)
    return found | _bootstrapped(terms, cell, {"spearman_within": statistic}, settings)


def _refitted(cell: Cell, settings: Settings) -> dict[str, Estimate]:
    """Spearman's correlation, and both scores with their CORP parts.

    An isotonic fit finds miscalibration in chance alone, and more in every resample. In simulations
    of 60 problems the percentiles of a critic's, calibrated or not, covered what many problems come
    to in 0 to 2 %; reflected they do in 93 %, and where little is known of calibrated ones (50
    problems, 64 returns) in 83 %. Percentiles of discrimination do in 90 to 95 %.
    """
    spearman = correlation.spearman(cell.values_N, cell.truths)
    rules = {
        "brier": (brier, clipped(cell.values_N, 0)),
        "log_score": (log_score, clipped(cell.values_N, cell.log_margin)),
    }

    def statistic(weights_N: np.ndarray) -> dict[str, float]:
        numbers = {"spearman": spearman(weights_N)}
        for name, (rule, predictions_N) in rules.items():
            parts = corp(rule, predictions_N, cell.num_correct_N, cell.num_samples, weights_N)
            numbers |= {name: parts.score}
            numbers |= {f"{name}_{part}": getattr(parts, part) for part in CORP_PARTS}
        return numbers

    found = bootstrap_weights(
        statistic,
        cell.problem_N,
        settings.generator,
        num_resamples=settings.num_refits,
        level=settings.level,
    )
    raised = (f"{name}_miscalibration" for name in rules)
    return found | {name: reflected(found[name], least=0.0) for name in raised}


def _bootstrapped(
    terms: Mapping[str, np.ndarray],
    cell: Cell,
    statistics: Mapping[str, SumStatistic],
    settings: Settings,
) -> dict[str, Estimate]:
    return bootstrap_sums(
        terms,
        cell.problem_N,
        statistics,
        settings.generator,
        num_resamples=settings.num_resamples,
        level=settings.level,
    )
