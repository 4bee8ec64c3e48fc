"""Errors by hand, and their corrections for the noise of the truth in simulation."""

import numpy as np
import pytest
from scipy.stats import binom

from analysis.stats.sums import total
from analysis.stats.value_error import (
    accuracy,
    bias,
    corrected_explained_variance,
    corrected_mse,
    error_terms,
    explained_variance,
    mae,
    mse,
)


def sums_of(values, counts, num_samples, threshold=0.1):
    return total(error_terms(np.array(values), np.array(counts), num_samples, threshold))


def test_the_examples_of_the_docstrings():
    sums = sums_of([0.5, 0.5], [1, 2], 4)
    assert bias(sums) == 0.125
    assert mae(sums) == 0.125
    assert mse(sums) == 0.03125
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


def test_corrections_are_right_on_average_and_what_they_correct_is_not():
    draw = np.random.default_rng(0)
    p_N = draw.beta(0.8, 0.8, 40)
    values_N = np.clip(p_N + 0.08 * draw.normal(size=40) + 0.02, 0, 1)
    found = np.array(
        [
            [statistic(sums) for statistic in (mse, corrected_mse, bias)]
            for sums in (sums_of(values_N, draw.binomial(16, p_N), 16) for _ in range(3000))
        ]
    )
    standard_error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    true_mse, noise = np.mean((values_N - p_N) ** 2), np.mean(p_N * (1 - p_N)) / 16
    off = found.mean(axis=0) - (true_mse, true_mse, np.mean(values_N - p_N))
    assert off[0] == pytest.approx(noise, abs=4 * standard_error[0])
    assert off[0] > 20 * standard_error[0]
    assert abs(off[1]) < 4 * standard_error[1]
    assert abs(off[2]) < 4 * standard_error[2]


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


def test_explained_variance_is_that_of_numpy_and_knows_no_shift():
    draw = np.random.default_rng(2)
    counts, values = draw.integers(0, 17, 30), draw.random(30)
    truth = counts / 16
    expected = 1 - np.var(truth - values) / np.var(truth)
    assert explained_variance(sums_of(values, counts, 16)) == pytest.approx(expected)
    assert explained_variance(sums_of(values + 5, counts, 16)) == pytest.approx(expected)


def test_truths_that_do_not_vary_cannot_be_explained():
    sums = sums_of([0.1, 0.2, 0.3], [3, 3, 3], 10)
    assert np.isnan(explained_variance(sums))
    assert np.isnan(corrected_explained_variance(sums))


def test_states_may_differ_in_their_returns():
    sums = sums_of([0.5, 0.5], [1, 10], np.array([4, 20]))
    assert mse(sums) == pytest.approx(0.0625 / 2)
    assert corrected_mse(sums) == pytest.approx((0.0625 - 0.1875 / 3 - 0.25 / 19) / 2)


def test_a_missing_prediction_is_refused():
    with pytest.raises(ValueError, match="values_N must be finite"):
        sums_of([0.5, np.nan], [1, 2], 4)
