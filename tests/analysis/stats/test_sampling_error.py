"""The errors of perfect K-draw estimators: closed forms, enumeration and simulation."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from analysis.stats.sampling_error import (
    expected_absolute_error,
    expected_squared_error,
    sampling_mse,
    sampling_share,
    split_error_terms,
    systematic_mse,
)
from analysis.stats.sums import total


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


def test_the_floor_is_the_error_that_perfect_estimators_have():
    draw = np.random.default_rng(0)
    p_N = draw.beta(0.7, 0.7, 40_000)
    counts_N = draw.binomial(64, p_N)
    errors_N = np.abs(draw.binomial(9, p_N) / 9 - counts_N / 64)
    standard_error = errors_N.std() / 200
    exact = expected_absolute_error(p_N, 9, 64).mean()
    assert errors_N.mean() == pytest.approx(exact, abs=4 * standard_error)
    measured = expected_absolute_error(counts_N / 64, 9, 64).mean()
    assert 0.97 * exact < measured < exact
    assert expected_absolute_error(p_N, 9, None).mean() < exact - 4 * standard_error


def test_the_floor_of_measured_values_is_low_by_a_share_of_one_in_m():
    counts, p = np.arange(17), 0.3
    plugged_in = binom.pmf(counts, 16, p) @ expected_absolute_error(counts / 16, 1, None)
    assert plugged_in == pytest.approx(2 * p * (1 - p) * (1 - 1 / 16))


def test_the_squared_floor_is_unbiased_and_by_hand():
    assert expected_squared_error(np.array([2]), 4, 2) == pytest.approx([1 / 6])
    counts, p = np.arange(6), 0.3
    assert binom.pmf(counts, 5, p) @ expected_squared_error(counts, 5, 9) == pytest.approx(
        p * (1 - p) / 9
    )


@pytest.mark.parametrize(("q", "p"), [(0.4, 0.4), (0.8, 0.3), (0.0, 0.5)])
def test_both_parts_of_the_squared_error_are_exactly_unbiased(q, p):
    draws, counts = (grid.ravel() for grid in np.meshgrid(np.arange(4), np.arange(6)))
    pmf = binom.pmf(draws, 3, q) * binom.pmf(counts, 5, p)
    terms = split_error_terms(draws, 3, counts, 5)
    assert pmf @ terms["systematic"] == pytest.approx((q - p) ** 2, abs=1e-14)
    assert pmf @ terms["sampling"] == pytest.approx(q * (1 - q) / 3, abs=1e-14)
    assert pmf @ terms["squared"] == pytest.approx((q - p) ** 2 + q * (1 - q) / 3, abs=1e-14)


def test_the_share_of_sampling_by_hand_and_of_a_stale_estimator():
    sums = total(split_error_terms(np.array([1, 1]), 2, np.array([0, 16]), 16))
    assert sampling_mse(sums) == 0.25
    assert (systematic_mse(sums), sampling_share(sums)) == (0, 1)
    draw = np.random.default_rng(1)
    p_N = draw.uniform(0.3, 0.9, 100_000)
    for stale, expected in ((0.0, 1.0), (0.2, None)):
        q_N = p_N - stale
        terms = split_error_terms(draw.binomial(9, q_N), 9, draw.binomial(64, p_N), 64)
        sampling = np.mean(q_N * (1 - q_N)) / 9
        share = sampling_share(total(terms))
        assert share == pytest.approx(expected or sampling / (sampling + stale**2), abs=0.02)
        assert systematic_mse(total(terms)) == pytest.approx(stale**2, abs=0.001)


def test_draws_that_show_nothing_are_refused():
    with pytest.raises(ValueError, match="at least 2 for a variance"):
        split_error_terms(np.array([1]), 1, np.array([3]), 4)
    for function in (
        lambda: expected_absolute_error(np.array([0.5]), 0, None),
        lambda: expected_squared_error(np.array([2]), 4, 0),
    ):
        with pytest.raises(ValueError, match="num_draws must be at least 1, got 0"):
            function()
