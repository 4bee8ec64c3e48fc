"""Intervals against scipy and by exact enumeration of every count; variances exactly unbiased."""

import numpy as np
import pytest
from scipy.stats import beta, binom, binomtest

from analysis.stats.binomial import (
    check_counts,
    estimated_value,
    jeffreys_interval,
    noise_variance,
    return_variance,
    wilson_interval,
)


def test_the_examples_of_the_docstrings():
    assert estimated_value(64, 256) == 0.25
    assert noise_variance(64, 256) == pytest.approx(0.25 * 0.75 / 255, rel=1e-12)
    assert return_variance(2, 4) == pytest.approx(1 / 3)
    assert wilson_interval(15, 50, 0.95) == pytest.approx((0.1910, 0.4375), abs=5e-5)
    assert jeffreys_interval(15, 50, 0.95) == pytest.approx((0.1869, 0.4355), abs=5e-5)


@pytest.mark.parametrize("p", [0.0, 0.03, 0.5, 0.9])
@pytest.mark.parametrize("m", [2, 5, 16])
def test_the_variances_are_unbiased_by_enumeration(p, m):
    counts = np.arange(m + 1)
    pmf = binom.pmf(counts, m, p)
    assert pmf @ return_variance(counts, m) == pytest.approx(p * (1 - p), abs=1e-14)
    assert pmf @ noise_variance(counts, m) == pytest.approx(p * (1 - p) / m, abs=1e-14)
    assert pmf @ (estimated_value(counts, m) - p) ** 2 == pytest.approx(p * (1 - p) / m, abs=1e-14)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_wilson_interval_is_that_of_scipy(level):
    counts = np.arange(14)
    low, high = wilson_interval(counts, 13, level)
    for count in counts:
        expected = binomtest(int(count), 13).proportion_ci(level, method="wilson")
        assert (low[count], high[count]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_jeffreys_interval_leaves_equal_tails_of_the_posterior():
    counts = np.arange(1, 13)
    low, high = jeffreys_interval(counts, 13, 0.9)
    assert beta.cdf(low, counts + 0.5, 13.5 - counts) == pytest.approx(0.05)
    assert beta.sf(high, counts + 0.5, 13.5 - counts) == pytest.approx(0.05)


@pytest.mark.parametrize("interval", [wilson_interval, jeffreys_interval])
def test_both_intervals_cover_within_two_points_of_their_level(interval):
    counts = np.arange(257)
    low, high = interval(counts, 256, 0.95)
    p = np.linspace(0.0005, 0.9995, 1000)
    is_covered = (low[:, None] <= p) & (p <= high[:, None])
    coverage = (binom.pmf(counts[:, None], 256, p) * is_covered).sum(axis=0)
    assert abs(coverage.mean() - 0.95) < 0.002
    inner = coverage[(p >= 0.05) & (p <= 0.95)]
    assert np.abs(inner - 0.95).max() < 0.02
    assert coverage.min() > 0.83


@pytest.mark.parametrize("interval", [wilson_interval, jeffreys_interval])
def test_intervals_mirror_reach_the_ends_and_hold_the_estimate(interval):
    counts = np.arange(0, 257, 8)
    low, high = interval(counts, 256, 0.95)
    mirrored_low, mirrored_high = interval(256 - counts, 256, 0.95)
    assert low == pytest.approx(1 - mirrored_high, abs=1e-12)
    assert high == pytest.approx(1 - mirrored_low, abs=1e-12)
    assert (low[0], high[-1]) == (0, 1)
    assert np.all((low <= counts / 256) & (counts / 256 <= high) & (low < high))


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"num_correct must be in 0\.\.num_samples, got 5"):
        check_counts(np.array([1, 5]), 4)
    with pytest.raises(ValueError, match=r"num_correct must be in 0\.\.num_samples, got -1"):
        check_counts(-1, 4)
    with pytest.raises(ValueError, match="num_samples must be at least 1, got 0"):
        check_counts(0, 0)
    with pytest.raises(ValueError, match="at least 2 for a variance"):
        noise_variance(1, 1)
