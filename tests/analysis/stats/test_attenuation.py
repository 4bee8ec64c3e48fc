"""Reliability of the truth, and that it is indeed the ceiling of correlations."""

import numpy as np
import pytest

from analysis.stats.attenuation import (
    ceiling,
    disattenuated,
    reliability,
    reliability_terms,
    spearman_brown,
    split_half_reliability,
    within_reliability,
    within_reliability_terms,
)
from analysis.stats.bootstrap import bootstrap_sums
from analysis.stats.correlation import pearson, pooled_terms, within, within_terms
from analysis.stats.sums import total


def reliability_of(counts, num_samples):
    return float(reliability(total(reliability_terms(np.array(counts), num_samples))))


def within_reliability_of(counts, num_samples, problems):
    terms = within_reliability_terms(np.array(counts), num_samples, problems)
    return float(within_reliability(total(terms)))


def test_the_examples_of_the_docstrings():
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


def test_halves_tell_the_same_reliability_as_the_formula():
    draw = np.random.default_rng(2)
    counts_N = draw.binomial(64, draw.beta(0.8, 0.8, 4000))
    split = split_half_reliability(counts_N, 64, 20, draw)
    assert split == pytest.approx(reliability_of(counts_N, 64), abs=0.002)
    few_N = draw.binomial(4, draw.beta(4, 4, 20_000))
    assert split_half_reliability(few_N, 4, 20, draw) == pytest.approx(
        reliability_of(few_N, 4), abs=0.02
    )


def test_what_cannot_be_known_is_undefined():
    assert np.isnan(reliability_of([3, 3, 3], 10))
    assert np.isnan(within_reliability_of([3, 3, 7, 7], 10, ["a", "a", "b", "b"]))
    assert np.isnan(ceiling(-0.1))
    assert np.isnan(disattenuated(0.3, np.array([-0.1, 0.0]))).all()
    # States that hardly differ have less variance than their noise.
    assert reliability_of([5, 5, 6], 10) < 0
    with pytest.raises(ValueError, match="num_samples must be even to be halved, got 5"):
        split_half_reliability(np.array([1, 2]), 5, 3, np.random.default_rng(0))


def test_a_disattenuated_correlation_has_an_interval_of_its_own():
    draw = np.random.default_rng(3)
    p_N = draw.beta(2, 2, 1000)
    counts_N, guess_N = draw.binomial(8, p_N), p_N + 0.2 * draw.normal(size=1000)
    terms = pooled_terms(guess_N, counts_N / 8) | reliability_terms(counts_N, 8)
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
