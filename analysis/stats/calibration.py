"""Calibration of predicted probabilities: proper scores, their CORP parts, reliability diagrams.

A state's score is the mean over its m returns y ∈ {0, 1}; the mean over states weights each by its
returns, times the weight that a resample gives it. Lower is better.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import xlogy

from analysis.stats.bootstrap import cluster_index, draw_counts
from analysis.stats.errors import Counts, check_counts, estimated_value

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of predictions and truths t = c/m


def isotonic_fit(
    predictions_N: np.ndarray, truth_N: np.ndarray, weights_N: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The nondecreasing function of the prediction that is nearest to the truth.

    min Σ w·(t − f(q))² over nondecreasing f, by pooling adjacent violators; equal predictions are
    one point. It also minimises every other proper score of probabilities. Source: Dimitriadis,
    Gneiting & Jordan, 2021 (PNAS 118), Theorem 1 and its supplement.

    Returns the distinct predictions of positive weight, ascending, and f at each. Raises
    `ValueError` where no weight is positive.

    Predictions (0.2, 0.5, 0.5, 0.8) of truths (0.4, 0, 0.4, 1): f is (0.267, 0.267, 1) at
    (0.2, 0.5, 0.8), because 0.4 before the mean 0.2 of two is a violation: (0.4 + 2 · 0.2)/3.
    """
    is_used_N = np.asarray(weights_N) > 0
    if not np.any(is_used_N):
        raise ValueError("weights_N must hold a positive weight")
    predictions_N, truth_N, weights_N = (
        np.asarray(numbers, dtype=float)[is_used_N]
        for numbers in (predictions_N, truth_N, weights_N)
    )
    points, place_N = np.unique(predictions_N, return_inverse=True)
    weight_at = np.bincount(place_N, weights_N)
    mean_at = np.bincount(place_N, weights_N * truth_N) / weight_at
    return points, isotonic_regression(mean_at, weights=weight_at).x


def evaluate(points: np.ndarray, fitted: np.ndarray, at_N: np.ndarray) -> np.ndarray:
    """f between its points by straight lines, beyond the outermost by their values.

    f = (0.2, 0.6) at (0, 1): 0.4 at 0.5, 0.6 at 2.
    """
    return np.interp(at_N, points, fitted)


def brier(predictions_N: np.ndarray, truth_N: np.ndarray) -> np.ndarray:
    """Mean (q − y)² over returns of which a share t is 1: t(1 − q)² + (1 − t)q².

    q = 0.5 of any truth: 0.25; q = 0.75 of t = 0.5: 0.5/16 + 0.5 · 9/16 = 0.3125.
    """
    return truth_N * (1 - predictions_N) ** 2 + (1 - truth_N) * predictions_N**2


def log_score(predictions_N: np.ndarray, truth_N: np.ndarray) -> np.ndarray:
    """−t·ln q − (1 − t)·ln(1 − q), in nats, with 0·ln 0 = 0.

    Infinite where q is 0 or 1 and the truth is not: clip first (`clipped`). q = 0.5: ln 2 = 0.693.
    """
    with np.errstate(divide="ignore"):
        return -xlogy(truth_N, predictions_N) - xlogy(1 - truth_N, 1 - predictions_N)


def clipped(predictions_N: np.ndarray, margin: float) -> np.ndarray:
    """Predictions moved into [margin, 1 − margin]: the rule by which log scores stay finite.

    A K-draw mean of 0 does not claim that the value is 0; margin 1/(2K + 2) puts 0 of K where
    (0 + ½)/(K + 1) is. A critic may lie outside of [0, 1]: margin 0 clips that for Brier's score.

    (−0.1, 0.5, 1) with a margin of 0.05: (0.05, 0.5, 0.95). Raises `ValueError` for a margin that
    is not in [0, 0.5).
    """
    if not 0 <= margin < 0.5:
        raise ValueError(f"margin must be in [0, 0.5), got {margin}")
    return np.clip(np.asarray(predictions_N, dtype=float), margin, 1 - margin)


@dataclass(frozen=True)
class Corp:
    """score = miscalibration − discrimination + uncertainty.

    Miscalibration (MCB) is what recalibrating the predictions would gain, 0 at best;
    discrimination (DSC) what the recalibrated ones gain over the base rate, 0 at least; uncertainty
    (UNC) is the score of the base rate, which no predictor has a part in.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def corp(
    score: Score,
    predictions_N: np.ndarray,
    num_correct_N: np.ndarray,
    num_samples: Counts,
    weights_N: np.ndarray,
) -> Corp:
    """The CORP decomposition of the mean score, by isotonic recalibration.

    MCB = S(q) − S(f(q)), DSC = S(t̄) − S(f(q)), UNC = S(t̄), f by `isotonic_fit`, t̄ the base rate.
    Source: Dimitriadis, Gneiting & Jordan, 2021 (PNAS 118, e2016191118). f is fitted to the same
    counts, so a calibrated prediction has a small positive MCB, which falls with N.

    `weights_N` are how often each state counts (1, or its count in a resample), besides its
    returns. Predictions are probabilities; for `log_score` give `clipped` ones, which the
    decomposition is then of. Raises `ValueError` for a prediction outside of [0, 1] and where the
    score is infinite.

    Predictions (0.25, 0.75) of 0 and 4 of 4 returns, Brier: score 1/16, recalibrated 0, base rate
    1/2: MCB 1/16, DSC 1/4, UNC 1/4.
    """
    predictions_N = np.asarray(predictions_N, dtype=float)
    if not np.all((predictions_N >= 0) & (predictions_N <= 1)):
        raise ValueError("predictions_N must be in [0, 1]")
    correct_N, samples_N = check_counts(num_correct_N, num_samples)
    truth_N, weights_N = correct_N / samples_N, np.asarray(weights_N) * samples_N
    base_rate = np.average(truth_N, weights=weights_N)
    recalibrated_N = evaluate(*isotonic_fit(predictions_N, truth_N, weights_N), predictions_N)
    is_used_N = weights_N > 0

    def mean_score(of_N: np.ndarray) -> float:
        scores_N = score(of_N[is_used_N], truth_N[is_used_N])
        return float(np.average(scores_N, weights=weights_N[is_used_N]))

    whole = mean_score(predictions_N)
    if not np.isfinite(whole):
        raise ValueError("the score must be finite: clip the predictions")
    recalibrated = mean_score(np.clip(recalibrated_N, 0, 1))
    uncertainty = mean_score(np.full(len(truth_N), base_rate))
    return Corp(whole, whole - recalibrated, uncertainty - recalibrated, uncertainty)


@dataclass(frozen=True)
class Bin:
    """States whose predictions are in one part of [0, 1]: how many, and their means."""

    num_states: int
    prediction: float
    truth: float


def corp_curve(
    predictions_N: np.ndarray, num_correct_N: np.ndarray, num_samples: Counts
) -> tuple[np.ndarray, np.ndarray]:
    """The CORP reliability curve: distinct predictions, ascending, and the isotonic truth at each.

    Source: Dimitriadis, Gneiting & Jordan, 2021 (PNAS 118). No bins to choose.

    Predictions (0.2, 0.5, 0.5, 0.8) of 2, 0, 2 and 5 of 5 returns: ((0.2, 0.5, 0.8), (0.267, 0.267,
    1)), as in `isotonic_fit`.
    """
    correct_N, samples_N = check_counts(num_correct_N, num_samples)
    return isotonic_fit(predictions_N, correct_N / samples_N, samples_N)


def binned(
    predictions_N: np.ndarray, num_correct_N: np.ndarray, num_samples: Counts, num_bins: int
) -> list[Bin]:
    """Mean prediction and mean truth of the states in each of equal parts of [0, 1].

    A part holds its lower end, the last also 1; what lies outside of [0, 1] is put into the
    outermost; parts without a state are left out.

    Predictions (0, 0.25, 1) of 0, 2 and 4 of 4 in 2 parts: 2 states with (0.125, 0.25), 1 with
    (1, 1).
    """
    predictions_N = np.asarray(predictions_N, dtype=float)
    truth_N = estimated_value(num_correct_N, num_samples)
    # The quotients k/num_bins are those of predictions k/K; products would round across an edge.
    place_N = np.searchsorted(np.arange(1, num_bins) / num_bins, predictions_N, side="right")
    parts = [place_N == place for place in np.unique(place_N)]
    return [
        Bin(int(part_N.sum()), float(predictions_N[part_N].mean()), float(truth_N[part_N].mean()))
        for part_N in parts
    ]


def consistency_band(
    predictions_N: np.ndarray,
    num_samples: Counts,
    at: np.ndarray,
    generator: np.random.Generator,
    *,
    num_resamples: int,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Where `corp_curve` lies, point by point, if every prediction *is* the value of its state.

    The counts are drawn anew, c ~ Binomial(m, q), and the curve is fitted to each draw; the band is
    the central `level` of the curves at every prediction of `at`, and is to be drawn around the
    diagonal. Source: Dimitriadis, Gneiting & Jordan, 2021, for one outcome a forecast.

    With m returns of one state this is more than calibration: predictions that are right on average
    over states of different values, E[p | q] = q, scatter more than the band allows. Whether those
    are calibrated is what `confidence_band` shows.

    Predictions 0 and 1 draw no other counts: the band is the diagonal.
    """
    predictions_N = np.clip(np.asarray(predictions_N, dtype=float), 0, 1)
    samples_N = np.broadcast_to(num_samples, predictions_N.shape)
    drawn_RN = generator.binomial(samples_N, predictions_N, (num_resamples, len(predictions_N)))
    fits = (isotonic_fit(predictions_N, of_N / samples_N, samples_N) for of_N in drawn_RN)
    return _central(fits, at, level)


def confidence_band(
    predictions_N: np.ndarray,
    num_correct_N: np.ndarray,
    num_samples: Counts,
    problem_N: Sequence[Any] | np.ndarray,
    at: np.ndarray,
    generator: np.random.Generator,
    *,
    num_resamples: int,
    level: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Where `corp_curve` could as well lie, point by point: over problems drawn anew.

    The central `level` of the curves of resampled problems at every prediction of `at`, around the
    curve. It takes in that states of a problem are alike and that states of one prediction differ.

    States that all have the prediction 0.5 and the truth 0.5 leave no doubt: the band is 0.5.
    """
    correct_N, samples_N = check_counts(num_correct_N, num_samples)
    index_N, num_problems = cluster_index(problem_N)
    fits = (
        isotonic_fit(predictions_N, correct_N / samples_N, samples_N * counts_C[index_N])
        for counts_C in draw_counts(num_problems, num_resamples, generator)
    )
    return _central(fits, at, level)


def _central(
    fits_R: Iterable[tuple[np.ndarray, np.ndarray]], at: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of the fitted curves at every prediction of `at`."""
    curves_R = [evaluate(*fit, at) for fit in fits_R]
    low, high = np.quantile(curves_R, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
