"""Scores how well predictions rank the alternative steps at a state."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from analysis.stats.bootstrap import Sums, mean_of, ratio
from analysis.stats.errors import Counts

MIN_ALTERNATIVES = 3


def is_resolved(
    num_correct: Counts,
    num_samples: Counts,
    other_correct: Counts,
    other_samples: Counts,
    level: float,
) -> np.ndarray:
    """True where two values differ by the two-proportion z-test, two-sided, at 1 − `level`.

    |p̂₁ − p̂₂| > z·√(p̄(1 − p̄)(1/m₁ + 1/m₂)), p̄ of both together, z the normal quantile at
    (1 + level)/2. Source: Fleiss, Levin & Paik, 2003, section 3.1, without continuity correction.
    Equal proportions, both 0 or both 1 among them, are never resolved.

    128 and 150 of 256 at 95 %: 0.0859 against 1.96 · 0.0440 = 0.0863: not resolved; 151: resolved.
    """
    c1, m1, c2, m2 = map(np.asarray, (num_correct, num_samples, other_correct, other_samples))
    pooled = (c1 + c2) / (m1 + m2)
    spread = np.sqrt(pooled * (1 - pooled) * (1 / m1 + 1 / m2))
    return np.abs(c1 / m1 - c2 / m2) > norm.ppf((1 + level) / 2) * spread


def top1_accuracy(predictions_A: np.ndarray, truth_A: np.ndarray) -> float:
    """Chance that the alternative of the highest prediction is one of the highest truth.

    Among tied highest predictions each is taken as often: two that tie, one of them the best, are
    worth one half. (3, 3, 1) of truths (0.5, 0.2, 0.9): 0; of (0.9, 0.2, 0.5): 0.5.
    """
    return float(np.mean(_is_highest(truth_A)[_is_highest(predictions_A)]))


def top1_chance(truth_A: np.ndarray) -> float:
    """The accuracy of a random choice: the share of alternatives of the highest truth.

    Of (0.9, 0.2, 0.5): 1/3; of (0.9, 0.9, 0.5, 0.5): 1/2.
    """
    return float(np.mean(_is_highest(truth_A)))


def pairwise_scores(
    predictions_A: np.ndarray, num_correct_A: np.ndarray, num_samples: Counts, level: float
) -> list[float]:
    """A score for each pair of alternatives that the truth resolves (`is_resolved`).

    1 where the predictions have the order of the truth, 0 where the other, ½ where they tie; a
    random order scores ½.

    Counts (200, 100, 105) of 256 resolve two pairs; predictions (0.5, 0.5, 0.1) score (½, 1).
    """
    correct_A, samples_A = np.broadcast_arrays(num_correct_A, num_samples)
    predictions_A = np.asarray(predictions_A, dtype=float)
    truth_A = correct_A / samples_A
    i, j = np.triu_indices(len(truth_A), 1)
    resolved = is_resolved(correct_A[i], samples_A[i], correct_A[j], samples_A[j], level)
    agreement = np.sign(predictions_A[i] - predictions_A[j]) * np.sign(truth_A[i] - truth_A[j])
    scores: list[float] = ((1 + agreement[resolved]) / 2).tolist()
    return scores


def ranking_terms(
    predictions: Sequence[np.ndarray],
    num_correct: Sequence[np.ndarray],
    num_samples: int,
    level: float,
) -> dict[str, np.ndarray]:
    """Terms of the statistics below, a list entry a state with its A ≥ 3 distinct alternatives.

    The predictions must come from other draws than the counts.
    """
    rows = []
    for predictions_A, correct_A in zip(predictions, num_correct, strict=True):
        truth_A = np.asarray(correct_A) / num_samples
        scores = pairwise_scores(predictions_A, correct_A, num_samples, level)
        top1 = top1_accuracy(predictions_A, truth_A), top1_chance(truth_A)
        rows.append((1.0, *top1, float(len(scores)), sum(scores)))
    columns = np.array(rows).T
    return dict(zip(("one", "top1", "chance", "pairs", "pair_score"), columns, strict=True))


top1 = mean_of("top1")  # mean `top1_accuracy` over states
chance = mean_of("chance")  # mean `top1_chance`: 1/A on average where no truths tie for the highest


def pairwise(sums: Sums) -> np.ndarray:
    """Mean over all resolved pairs; chance is ½. NaN where the truth resolves none."""
    return ratio(sums["pair_score"], sums["pairs"])


def _is_highest(values_A: np.ndarray) -> np.ndarray:
    return np.asarray(values_A) == np.max(values_A)
