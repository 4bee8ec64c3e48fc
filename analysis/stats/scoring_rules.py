"""Brier and logarithmic scores of predicted probabilities, and what they consist of.

A state's score is the mean over its m returns y ∈ {0, 1}; the mean over states weights each by its
returns, times the weight that a resample gives it. Lower is better.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from analysis.stats.binomial import Counts, check_counts
from analysis.stats.isotonic import evaluate, isotonic_fit

Score = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of predictions and truths t = c/m


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
