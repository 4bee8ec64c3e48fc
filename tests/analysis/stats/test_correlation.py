"""Correlations against scipy and by hand, and how far noise keeps them from 1."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from analysis.stats.bootstrap import bootstrap_sums, mean, mean_terms, total
from analysis.stats.correlation import (
    ceiling,
    deviations,
    disattenuated,
    pearson,
    pooled_terms,
    problem_correlations,
    ranks_within,
    reliability,
    spearman,
    spearman_brown,
    within,
    within_reliability,
    within_reliability_terms,
    within_terms,
)
from analysis.stats.errors import truth_terms
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
    assert mean(total(mean_terms(found_C))) == pytest.approx(np.nanmean(expected))


def reliability_of(counts, num_samples):
    return float(reliability(total(truth_terms(np.array(counts), num_samples))))


def test_the_one_that_training_logs_is_the_same():
    x, y = np.random.default_rng(7).random((2, 30))
    problems = np.arange(30) // 7
    by_problem = [[of[problems == p] for p in range(5)] for of in (x, y)]
    found = within_problem_correlation(*by_problem)
    assert found == pytest.approx(within_problems(x, y, problems))


def within_reliability_of(counts, num_samples, problems):
    terms = within_reliability_terms(np.array(counts), num_samples, problems)
    return float(within_reliability(total(terms)))


def test_the_examples_of_the_docstrings_of_attenuation():
    assert reliability_of([0, 2, 4], 4) == pytest.approx(8 / 9)
    assert within_reliability_of([1, 3], 4, ["a", "a"]) == pytest.approx(0.5)
    assert spearman_brown(0.5, 2) == pytest.approx(2 / 3)
    assert ceiling(0.81) == pytest.approx(0.9)
    assert disattenuated(0.45, 0.81) == pytest.approx(0.5)


def test_no_prediction_exceeds_the_ceiling_and_perfect_ones_reach_it():
    draw = np.random.default_rng(0)
    p_N = draw.beta(2, 2, 200_000)
    counts_N, num_samples = draw.binomial(16, p_N), 16
    found = reliability_of(counts_N, num_samples)
    # Beta(2, 2): Var p = 1/20, E p(1 − p) = 1/5.
    assert found == pytest.approx((1 / 20) / (1 / 20 + 1 / 5 / 16), abs=0.005)
    assert np.corrcoef(p_N, counts_N)[0, 1] == pytest.approx(float(ceiling(found)), abs=0.003)
    noisy_N = p_N + 0.2 * draw.normal(size=len(p_N))
    with_truth = np.corrcoef(noisy_N, counts_N)[0, 1]
    with_values = np.corrcoef(noisy_N, p_N)[0, 1]
    assert disattenuated(with_truth, found) == pytest.approx(with_values, abs=0.005)
    # A perfect estimator with three draws, and its own ceiling.
    of_draws = np.corrcoef(draw.binomial(3, p_N), counts_N)[0, 1]
    reliability_of_draws = spearman_brown(found, 3 / 16)
    assert of_draws == pytest.approx(float(ceiling(found * reliability_of_draws)), abs=0.005)


def test_within_problems_the_truth_has_a_reliability_of_its_own():
    draw = np.random.default_rng(1)
    problem_N = np.repeat(np.arange(40_000), 3)
    p_N = np.clip(
        draw.uniform(0.2, 0.8, 40_000)[problem_N] + draw.uniform(-0.2, 0.2, 120_000), 0, 1
    )
    counts_N = draw.binomial(32, p_N)
    found = within_reliability_of(counts_N, 32, problem_N)
    assert found < reliability_of(counts_N, 32) - 0.1
    reached = within(total(within_terms(p_N, counts_N / 32, problem_N)))
    assert reached == pytest.approx(float(ceiling(found)), abs=0.005)


def test_what_cannot_be_known_is_undefined():
    assert np.isnan(reliability_of([3, 3, 3], 10))
    assert np.isnan(within_reliability_of([3, 3, 7, 7], 10, ["a", "a", "b", "b"]))
    assert np.isnan(ceiling(-0.1))
    assert np.isnan(disattenuated(0.3, np.array([-0.1, 0.0]))).all()
    # States that hardly differ have less variance than their noise.
    assert reliability_of([5, 5, 6], 10) < 0


def test_a_disattenuated_correlation_has_an_interval_of_its_own():
    draw = np.random.default_rng(3)
    p_N = draw.beta(2, 2, 1000)
    counts_N, guess_N = draw.binomial(8, p_N), p_N + 0.2 * draw.normal(size=1000)
    terms = pooled_terms(guess_N, counts_N / 8) | truth_terms(counts_N, 8)
    found = bootstrap_sums(
        terms,
        np.arange(1000) // 5,
        {"raw": pearson, "true": lambda sums: disattenuated(pearson(sums), reliability(sums))},
        draw,
        num_resamples=400,
        level=0.99,
    )
    assert found["true"].low < np.corrcoef(guess_N, p_N)[0, 1] < found["true"].high
    assert found["raw"].high < found["true"].low
