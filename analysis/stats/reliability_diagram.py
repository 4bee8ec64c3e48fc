"""Reliability diagrams: the truth against the prediction, and the bands that belong beside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.stats.binomial import Counts, check_counts
from analysis.stats.bootstrap import cluster_index, draw_counts
from analysis.stats.isotonic import evaluate, isotonic_fit


@dataclass(frozen=True)
class Bin:
    """States whose predictions are in one part of [0, 1], their means and how many."""

    low: float
    high: float
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
    predictions_N: np.ndarray,
    num_correct_N: np.ndarray,
    num_samples: Counts,
    num_bins: int,
) -> list[Bin]:
    """Mean prediction and mean truth of the states in each of equal parts of [0, 1].

    A part holds its lower end, the last also 1; what lies outside of [0, 1] is put into the
    outermost; parts without a state are left out.

    Predictions (0, 0.25, 1) of 0, 2 and 4 of 4 in 2 parts: 2 states with (0.125, 0.25), 1 with
    (1, 1).
    """
    predictions_N = np.asarray(predictions_N, dtype=float)
    correct_N, samples_N = check_counts(num_correct_N, num_samples)
    # The quotients k/num_bins are those of predictions k/K; products would round across an edge.
    place_N = np.searchsorted(np.arange(1, num_bins) / num_bins, predictions_N, side="right")
    bins = []
    for place in np.unique(place_N):
        chosen = place_N == place
        bins.append(
            Bin(
                low=float(place / num_bins),
                high=float((place + 1) / num_bins),
                num_states=int(chosen.sum()),
                prediction=float(predictions_N[chosen].mean()),
                truth=float((correct_N[chosen] / samples_N[chosen]).mean()),
            )
        )
    return bins


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
    curves = [
        evaluate(*isotonic_fit(predictions_N, drawn_N / samples_N, samples_N), at)
        for drawn_N in drawn_RN
    ]
    return _central(np.array(curves), level)


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
    curves = [
        evaluate(
            *isotonic_fit(predictions_N, correct_N / samples_N, samples_N * counts_C[index_N]), at
        )
        for counts_C in draw_counts(num_problems, num_resamples, generator)
    ]
    return _central(np.array(curves), level)


def _central(curves_R: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.quantile(curves_R, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high
