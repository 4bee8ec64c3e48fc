"""Isotonic recalibration: what the truth is on average where a prediction says q."""

import numpy as np
from scipy.optimize import isotonic_regression


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
        np.asarray(of, dtype=float)[is_used_N] for of in (predictions_N, truth_N, weights_N)
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
