"""Sums, their quotients and variances, and what is undefined; percentile estimates."""

import math

import numpy as np
import pytest

from analysis.stats.estimate import Estimate, percentile_estimate, reflected
from analysis.stats.sums import mean, mean_terms, ratio, total, variance


def test_the_examples_of_the_docstrings():
    x = np.array([1.0, 2.0, 3.0])
    sums = total({"one": np.ones(3), "x": x, "xx": x**2})
    assert variance(sums, "x", "xx") == pytest.approx(1)
    assert mean(total(mean_terms(np.array([1, 3, np.nan])))) == 2
    estimate = percentile_estimate(0.5, np.linspace(0, 1, 101), level=0.9)
    assert (estimate.low, estimate.high) == pytest.approx((0.05, 0.95))
    found = reflected(Estimate(0.3, 0.25, 0.7), least=0.0)
    assert (found.value, found.low, found.high) == pytest.approx((0.3, 0, 0.35))
    assert reflected(Estimate(0.3, None, None), least=0.0) == Estimate(0.3, None, None)


def test_a_quotient_by_nothing_is_undefined():
    assert np.isnan(ratio(np.array(1.0), np.array(0.0)))
    assert ratio(np.array([1.0, 1.0]), np.array([2.0, -1.0])) == pytest.approx(
        [0.5, math.nan], nan_ok=True
    )
    assert np.isnan(mean(total(mean_terms(np.array([np.nan])))))


def test_the_variance_of_a_constant_is_exactly_0_and_of_one_state_undefined():
    x = np.full(7, 0.1)
    assert variance(total({"one": np.ones(7), "x": x, "xx": x**2}), "x", "xx") == 0
    one = {"one": np.ones(1), "x": x[:1], "xx": x[:1] ** 2}
    assert np.isnan(variance(total(one), "x", "xx"))


def test_the_variance_is_that_of_numpy_for_many_resamples_at_once():
    x = np.random.default_rng(0).normal(size=(4, 9))
    sums = {"one": np.full(4, 9.0), "x": x.sum(axis=1), "xx": (x**2).sum(axis=1)}
    assert variance(sums, "x", "xx") == pytest.approx(x.var(axis=1, ddof=1))


def test_undefined_resamples_take_the_bounds_only_when_a_tail_could_be_theirs():
    resampled_R = np.linspace(0, 1, 1000)
    resampled_R[:25] = np.nan
    assert percentile_estimate(0.5, resampled_R, 0.95).low is not None
    resampled_R[25:27] = np.nan
    assert percentile_estimate(0.5, resampled_R, 0.95) == Estimate(0.5, None, None)
