"""Correlations against scipy, by hand, and what only the one within problems sees."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from analysis.stats.bootstrap import bootstrap_sums
from analysis.stats.correlation import (
    deviations,
    pearson,
    pooled_terms,
    problem_correlations,
    ranks_within,
    spearman,
    within,
    within_terms,
)
from analysis.stats.sums import mean, mean_terms, total


def pooled(x, y):
    return pearson(total(pooled_terms(np.array(x), np.array(y))))


def within_problems(x, y, problems):
    return within(total(within_terms(np.array(x), np.array(y), problems)))


def test_the_examples_of_the_docstrings():
    assert pooled([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert deviations(np.array([1, 3, 4]), ["a", "a", "b"]).tolist() == [-1, 1, 0]
    found = within_problems([0, 1, 5, 7], [0, 1, 9, 3], ["a", "a", "b", "b"])
    assert found == pytest.approx(-5.5 / np.sqrt(2.5 * 18.5))
    assert found == pytest.approx(-0.809, abs=5e-4)
    ranks = ranks_within(np.array([5, 7, 7, 9, 8]), ["a", "a", "a", "b", "b"])
    assert ranks.tolist() == [1, 2.5, 2.5, 2, 1]
    by_problem = problem_correlations(
        np.array([1, 2, 3, 1, 2]), np.array([2, 4, 6, 5, 1]), ["a", "a", "a", "b", "b"]
    )
    assert by_problem == pytest.approx([1, np.nan], nan_ok=True)
    assert spearman(np.array([1, 2, 3, 4]), np.array([1, 3, 2, 9]))(
        np.ones(4, int)
    ) == pytest.approx(0.8)


def test_pooled_correlations_are_those_of_scipy_also_of_repeated_and_tied_states():
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 6, 50), draw.integers(0, 6, 50) + 1000.0
    y += x
    assert pooled(x, y) == pytest.approx(pearsonr(x, y).statistic)
    weights = draw.integers(0, 4, 50)
    rows = np.repeat(np.arange(50), weights)
    assert spearman(x, y)(weights) == pytest.approx(spearmanr(x[rows], y[rows]).statistic)


def test_knowing_only_the_problem_is_worth_nothing_within_it():
    draw = np.random.default_rng(1)
    problem_N = np.repeat(np.arange(300), 5)
    of_problem = draw.normal(size=300)[problem_N]
    truth = of_problem + 0.5 * draw.normal(size=1500)
    guess = of_problem + 0.1 * draw.normal(size=1500)
    assert pooled(guess, truth) > 0.8
    # 1200 degrees of freedom: a standard error of 0.029
    assert abs(within_problems(guess, truth, problem_N)) < 0.12
    assert within_problems(truth - of_problem, truth, problem_N) > 0.99
    assert abs(np.nanmean(problem_correlations(guess, truth, problem_N))) < 0.12


@pytest.mark.parametrize("of_problem", [(0.1, 0.7), (1 / 3, 0.3), (0.0, 0.0)])
def test_predictions_that_are_constant_in_problems_have_no_correlation_there(of_problem):
    guess = np.repeat(of_problem, 7)
    truth = np.random.default_rng(2).random(14)
    problems = ["a"] * 7 + ["b"] * 7
    assert np.isnan(within_problems(guess, truth, problems))
    assert np.isnan(problem_correlations(guess, truth, problems)).all()
    constant = np.full(14, of_problem[0])
    assert np.isnan(pooled(constant, truth))
    assert np.isnan(spearman(constant, truth)(np.ones(14, int)))


def test_every_problem_shifted_and_all_scaled_changes_nothing_within():
    draw = np.random.default_rng(3)
    problem_N = draw.integers(0, 6, 80)
    x, y = draw.normal(size=80), draw.normal(size=80)
    shift = draw.normal(size=6)[problem_N]
    expected = within_problems(x, y, problem_N)
    assert within_problems(3 * x + shift, y - 2 * shift, problem_N) == pytest.approx(expected)
    assert within_problems(-x, y, problem_N) == pytest.approx(-expected)


def test_the_average_over_problems_is_that_of_their_correlations():
    draw = np.random.default_rng(4)
    problem_N = np.repeat(np.arange(20), [2, 3, 4, 5, 6] * 4)
    x, y = draw.normal(size=80), draw.normal(size=80)
    for of, reference in (
        (lambda v: v, pearsonr),
        (lambda v: ranks_within(v, problem_N), spearmanr),
    ):
        found_C = problem_correlations(of(x), of(y), problem_N)
        expected = [
            reference(x[problem_N == i], y[problem_N == i]).statistic if i % 5 else np.nan
            for i in range(20)
        ]
        assert found_C == pytest.approx(expected, nan_ok=True)
    estimate = bootstrap_sums(
        mean_terms(found_C), range(20), {"r": mean}, draw, num_resamples=300, level=0.95
    )["r"]
    assert estimate.value == pytest.approx(np.nanmean(expected))
    assert estimate.low < estimate.value < estimate.high
