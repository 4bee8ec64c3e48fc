"""Correlations against scipy and by hand, and how far noise keeps them from 1."""

import numpy as np
import pytest
from scipy.stats import pearsonr

from analysis.stats.bootstrap import total
from analysis.stats.correlation import (
    deviations,
    difference_terms,
    differences,
    pearson,
    pooled_terms,
    within,
    within_terms,
)
from vineppo.metrics import within_problem_correlation


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
    # Out of order, and beside a rollout without neighbours.
    x, y = np.array([1, 9.0, 0, 1, 9]), np.array([4, 9.0, 0, 3, 0])
    rollouts, steps = np.array([0, 1, 0, 0, 1]), np.array([3, 1, 1, 2, 3])
    terms = difference_terms(x, y, np.full(5, 0.25), rollouts, steps)
    assert differences(total(terms)) == pytest.approx(1.155, abs=5e-4)


def test_pooled_correlations_are_those_of_scipy_also_of_repeated_and_tied_states():
    draw = np.random.default_rng(0)
    x, y = draw.integers(0, 6, 50), draw.integers(0, 6, 50) + 1000.0
    y += x
    assert pooled(x, y) == pytest.approx(pearsonr(x, y).statistic)


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


@pytest.mark.parametrize("of_problem", [(0.1, 0.7), (1 / 3, 0.3), (0.0, 0.0)])
def test_predictions_that_are_constant_in_problems_have_no_correlation_there(of_problem):
    guess = np.repeat(of_problem, 7)
    truth = np.random.default_rng(2).random(14)
    problems = ["a"] * 7 + ["b"] * 7
    assert np.isnan(within_problems(guess, truth, problems))
    constant = np.full(14, of_problem[0])
    assert np.isnan(pooled(constant, truth))


def test_every_problem_shifted_and_all_scaled_changes_nothing_within():
    draw = np.random.default_rng(3)
    problem_N = draw.integers(0, 6, 80)
    x, y = draw.normal(size=80), draw.normal(size=80)
    shift = draw.normal(size=6)[problem_N]
    expected = within_problems(x, y, problem_N)
    assert within_problems(3 * x + shift, y - 2 * shift, problem_N) == pytest.approx(expected)
    assert within_problems(-x, y, problem_N) == pytest.approx(-expected)


def test_the_one_that_training_logs_is_the_same():
    x, y = np.random.default_rng(7).random((2, 30))
    problems = np.arange(30) // 7
    by_problem = [[of[problems == p] for p in range(5)] for of in (x, y)]
    found = within_problem_correlation(*by_problem)
    assert found == pytest.approx(within_problems(x, y, problems))
