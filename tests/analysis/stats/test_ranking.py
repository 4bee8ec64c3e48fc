"""Ranking of alternatives by hand, and chance over all orders of the predictions."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from analysis.stats.bootstrap import total
from analysis.stats.ranking import (
    chance,
    is_resolved,
    pairwise,
    pairwise_scores,
    ranking_terms,
    top1,
    top1_accuracy,
    top1_chance,
)


def test_the_examples_of_the_docstrings():
    assert not is_resolved(128, 256, 150, 256, 0.95)
    assert is_resolved(128, 256, 151, 256, 0.95)
    assert top1_accuracy(np.array([3, 3, 1]), np.array([0.5, 0.2, 0.9])) == 0
    assert top1_accuracy(np.array([3, 3, 1]), np.array([0.9, 0.2, 0.5])) == 0.5
    assert top1_chance(np.array([0.9, 0.2, 0.5])) == pytest.approx(1 / 3)
    assert top1_chance(np.array([0.9, 0.9, 0.5, 0.5])) == 0.5
    scores = pairwise_scores(np.array([0.5, 0.5, 0.1]), np.array([200, 100, 105]), 256, 0.95)
    assert scores == [0.5, 1]


def test_a_pair_is_resolved_where_the_chi_square_test_of_scipy_rejects():
    draw = np.random.default_rng(0)
    for c1, c2 in draw.integers(1, 64, (200, 2)):
        p_value = chi2_contingency([[c1, 64 - c1], [c2, 96 - c2]], correction=False).pvalue
        assert is_resolved(c1, 64, c2, 96, 0.95) == (p_value < 0.05)
    assert not is_resolved(np.array([0, 64, 32]), 64, np.array([0, 64, 32]), 64, 0.5).any()


def test_true_values_that_are_equal_are_resolved_as_often_as_the_level_says():
    draw = np.random.default_rng(1)
    c1, c2 = draw.binomial(256, 0.4, (2, 40_000))
    assert is_resolved(c1, 256, c2, 256, 0.95).mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("counts", [[30, 10, 50, 3], [50, 50, 9], [64, 0, 0, 0, 64], [7, 7, 7]])
def test_over_all_orders_of_the_predictions_scores_are_chance(counts):
    counts_A = np.array(counts)
    orders = list(map(np.array, permutations(range(len(counts)))))
    terms = ranking_terms(orders, [counts_A] * len(orders), 64, 0.95)
    sums = total(terms)
    assert top1(sums) == pytest.approx(chance(sums))
    assert chance(sums) == pytest.approx(np.mean(counts_A == counts_A.max()))
    if len(set(counts)) > 1:
        assert pairwise(sums) == pytest.approx(0.5)
    else:
        assert np.isnan(pairwise(sums))


def test_the_truth_ranks_itself_perfectly_and_its_reverse_not_at_all():
    truths = [np.array([30, 9, 50, 3]), np.array([60, 2, 30])]
    right = total(ranking_terms(truths, truths, 64, 0.95))
    wrong = total(ranking_terms([-truth for truth in truths], truths, 64, 0.95))
    assert (top1(right), pairwise(right)) == (1, 1)
    assert (top1(wrong), pairwise(wrong)) == (0, 0)
    assert chance(right) == pytest.approx((1 / 4 + 1 / 3) / 2)
    # 9 and 3 of 64 are not resolved; the other pairs are.
    assert right["pairs"] == 5 + 3


def test_ties_are_one_half_and_equal_predictions_are_chance():
    counts = [np.array([60, 30, 2, 30])]
    sums = total(ranking_terms([np.full(4, 0.3)], counts, 64, 0.95))
    assert (top1(sums), chance(sums), pairwise(sums)) == (0.25, 0.25, 0.5)
    # The pair of 30 and 30 is not resolved and does not count, however it is ranked.
    sums = total(ranking_terms([np.array([4, 3, 1, 2])], counts, 64, 0.95))
    assert (sums["pairs"], pairwise(sums)) == (5, 1)
