"""Values from counts, errors against them and their floors: by hand and on average."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from analysis.stats.bootstrap import total
from analysis.stats.errors import (
    accuracy,
    bias,
    corrected_explained_variance,
    corrected_mse,
    error_terms,
    estimated_value,
    expected_absolute_error,
    explained_variance,
    jeffreys_interval,
    mae,
    noise_variance,
    return_variance,
)


def test_the_examples_of_the_docstrings():
    assert estimated_value(64, 256) == 0.25
    assert noise_variance(64, 256) == pytest.approx(0.25 * 0.75 / 255, rel=1e-12)
    assert return_variance(2, 4) == pytest.approx(1 / 3)
    assert jeffreys_interval(15, 50, 0.95) == pytest.approx((0.1869, 0.4355), abs=5e-5)


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.9])
@pytest.mark.parametrize("m", [2, 5, 16])
def test_the_variances_are_unbiased_by_enumeration(p, m):
    counts = np.arange(m + 1)
    pmf = binom.pmf(counts, m, p)
    assert pmf @ return_variance(counts, m) == pytest.approx(p * (1 - p), abs=1e-14)
    assert pmf @ noise_variance(counts, m) == pytest.approx(p * (1 - p) / m, abs=1e-14)
    assert pmf @ (estimated_value(counts, m) - p) ** 2 == pytest.approx(p * (1 - p) / m, abs=1e-14)


def test_the_jeffreys_interval_leaves_equal_tails_of_the_posterior():
    counts = np.arange(1, 13)
    low, high = jeffreys_interval(counts, 13, 0.9)
    assert beta.cdf(low, counts + 0.5, 13.5 - counts) == pytest.approx(0.05)
    assert beta.sf(high, counts + 0.5, 13.5 - counts) == pytest.approx(0.05)


def test_the_interval_covers_within_two_points_of_its_level():
    counts = np.arange(257)
    low, high = jeffreys_interval(counts, 256, 0.95)
    p = np.linspace(0.0005, 0.9995, 1000)
    is_covered = (low[:, None] <= p) & (p <= high[:, None])
    coverage = (binom.pmf(counts[:, None], 256, p) * is_covered).sum(axis=0)
    assert abs(coverage.mean() - 0.95) < 0.002
    inner = coverage[(p >= 0.05) & (p <= 0.95)]
    assert np.abs(inner - 0.95).max() < 0.02
    assert coverage.min() > 0.83


def sums_of(values, counts, num_samples, threshold=0.1):
    return total(error_terms(np.array(values), np.array(counts), num_samples, threshold))


def test_the_examples_of_the_docstrings_of_value_error():
    sums = sums_of([0.5, 0.5], [1, 2], 4)
    assert bias(sums) == 0.125
    assert mae(sums) == 0.125
    assert corrected_mse(sums) == pytest.approx(0.03125 - (0.0625 + 0.25 / 3) / 2)
    assert accuracy(sums) == 0.5
    sums = sums_of([0.25, 0.75], [0, 16], 16)
    assert explained_variance(sums) == pytest.approx(0.75)
    assert corrected_explained_variance(sums) == pytest.approx(0.75)
    assert corrected_explained_variance(sums_of([0.5] * 3, [2, 8, 14], 16)) == pytest.approx(0)


def test_an_error_of_the_threshold_is_accurate_however_it_was_rounded():
    # In floating point 0.35 − 0.25 is below 0.1 and 0.8 − 0.7 above.
    assert accuracy(sums_of([0.35, 0.8], [5, 14], 20)) == 1
    assert accuracy(sums_of([0.351, 0.39], [5, 10], 20)) == 0


@pytest.mark.parametrize(("value", "p"), [(0.3, 0.3), (0.9, 0.2), (0.0, 1.0)])
def test_the_corrected_squared_error_is_exactly_unbiased(value, p):
    counts = np.arange(9)
    terms = error_terms(np.full(9, value), counts, 8, 0.1)
    pmf = binom.pmf(counts, 8, p)
    assert pmf @ (terms["squared"] - terms["noise"]) == pytest.approx((value - p) ** 2, abs=1e-14)
    assert pmf @ terms["error"] == pytest.approx(value - p, abs=1e-14)


def test_explained_variance_loses_the_noise_of_the_truth_by_its_correction():
    draw = np.random.default_rng(1)
    p_N = draw.beta(1.5, 1.5, 200_000)
    values_N = 0.2 + 0.5 * p_N + 0.1 * draw.normal(size=len(p_N))
    sums = sums_of(values_N, draw.binomial(8, p_N), 8)
    true = 1 - np.var(p_N - values_N) / np.var(p_N)
    assert corrected_explained_variance(sums) == pytest.approx(true, abs=0.01)
    assert explained_variance(sums) < true - 0.1
    perfect = sums_of(p_N, draw.binomial(8, p_N), 8)
    assert corrected_explained_variance(perfect) == pytest.approx(1, abs=0.01)
    assert explained_variance(perfect) < 0.8


def test_truths_that_do_not_vary_cannot_be_explained():
    sums = sums_of([0.1, 0.2, 0.3], [3, 3, 3], 10)
    assert np.isnan(explained_variance(sums))
    assert np.isnan(corrected_explained_variance(sums))


def de_moivre(n, p):
    """E|X/n − p| = 2ν·C(n, ν)·p^ν·(1 − p)^(n−ν+1)/n, ν = ⌊np⌋ + 1 (de Moivre, 1730)."""
    nu = math.floor(n * p) + 1
    return 2 * nu * math.comb(n, nu) * p**nu * (1 - p) ** (n - nu + 1) / n


@pytest.mark.parametrize("num_draws", [1, 3, 9, 27])
def test_the_floor_against_the_exact_truth_is_de_moivres(num_draws):
    p = [0.01, 0.25, 1 / 3, 0.7, 0.99]
    expected = [de_moivre(num_draws, one) for one in p]
    assert expected_absolute_error(np.array(p), num_draws, None) == pytest.approx(expected)


def test_the_floor_against_a_measured_truth_by_hand_and_by_enumeration():
    assert expected_absolute_error(np.array([0.25]), 1, None) == pytest.approx(0.375)
    assert expected_absolute_error(np.array([0.25]), 1, 1) == pytest.approx(0.375)
    p, num_draws, m = 0.3, 3, 4
    expected = sum(
        binom.pmf(x, num_draws, p) * binom.pmf(y, m, p) * abs(x / num_draws - y / m)
        for x in range(num_draws + 1)
        for y in range(m + 1)
    )
    found = expected_absolute_error(np.array([p, 0.0, 1.0]), num_draws, m)
    assert found == pytest.approx([expected, 0, 0], abs=1e-15)
