"""The clustered bootstrap, by hand and in simulations; sums and what is made of them."""

import math

import numpy as np
import pytest

from analysis.stats.bootstrap import (
    Estimate,
    bootstrap_difference,
    bootstrap_sums,
    bootstrap_weights,
    cluster_index,
    expanded_level,
    mean_of,
    percentile_estimate,
    total,
    variance,
)
from analysis.stats.correlation import pearson, pooled_terms
from analysis.stats.errors import bias, corrected_mse, error_terms

SETTINGS = {"num_resamples": 500, "level": 0.95}


mean = mean_of("value")


def mean_terms(values_N):
    return {"one": np.ones(len(values_N)), "value": np.asarray(values_N, dtype=float)}


def generator(seed=0):
    return np.random.default_rng(seed)


def test_the_examples_of_the_docstrings():
    index_N, num_clusters = cluster_index(["b", "a", "b"])
    assert (index_N.tolist(), num_clusters) == ([1, 0, 1], 2)
    values, problems = np.array([0.0, 0, 1, 1]), ["a", "a", "b", "b"]
    expected = {"mean": Estimate(0.5, 0.0, 1.0)}
    found = bootstrap_sums(mean_terms(values), problems, {"mean": mean}, generator(), **SETTINGS)
    assert found == expected

    def weighted(weights_N):
        return {"mean": np.average(values, weights=weights_N)}

    assert bootstrap_weights(weighted, problems, generator(), **SETTINGS) == expected
    assert expanded_level(0.95, 60) == pytest.approx(0.9564, abs=5e-5)
    x = np.array([1.0, 2.0, 3.0])
    sums = total({"one": np.ones(3), "x": x, "xx": x**2})
    assert variance(sums, "x", "xx") == pytest.approx(1)
    estimate = percentile_estimate(0.5, np.linspace(0, 1, 101), level=0.9)
    assert (estimate.low, estimate.high) == pytest.approx((0.05, 0.95))


def test_sums_weights_and_repeated_rows_are_the_same_resamples():
    draw = generator(1)
    problem_N = draw.integers(0, 12, 60)
    x, y = draw.normal(size=60), draw.normal(size=60) + problem_N
    by_sums = bootstrap_sums(
        pooled_terms(x, y), problem_N, {"r": pearson}, generator(5), **SETTINGS
    )["r"]

    def repeated(weights_N):
        rows = np.repeat(np.arange(60), weights_N)
        return {"r": np.corrcoef(x[rows], y[rows])[0, 1]}

    by_rows = bootstrap_weights(repeated, problem_N, generator(5), **SETTINGS)["r"]
    assert (by_sums.value, by_sums.low, by_sums.high) == pytest.approx(
        (by_rows.value, by_rows.low, by_rows.high), abs=1e-12
    )
    assert by_sums.low < by_sums.value < by_sums.high


def test_one_problem_has_no_interval():
    terms = mean_terms(np.array([0.0, 1.0]))
    found = bootstrap_sums(terms, ["a", "a"], {"mean": mean}, generator(), **SETTINGS)
    assert found == {"mean": Estimate(0.5, None, None)}


def test_a_difference_is_taken_on_the_same_problems():
    draw = generator(3)
    problem_N = np.repeat(np.arange(30), 4)
    hard = draw.normal(size=30)[problem_N]
    one, other = hard + 0.1 * draw.normal(size=120) + 0.5, hard + 0.1 * draw.normal(size=120)
    found = bootstrap_difference(
        mean_terms(one), mean_terms(other), problem_N, {"m": mean}, generator(), **SETTINGS
    )["m"]
    alone = bootstrap_sums(mean_terms(one), problem_N, {"m": mean}, generator(), **SETTINGS)["m"]
    assert found.value == pytest.approx(one.mean() - other.mean())
    assert 0.4 < found.low < found.high < 0.6
    assert found.high - found.low < 0.2 * (alone.high - alone.low)
    terms = mean_terms(one)
    same = bootstrap_difference(terms, terms, problem_N, {"m": mean}, generator(), **SETTINGS)
    assert same == {"m": Estimate(0.0, 0.0, 0.0)}


def simulated_states(draw, num_problems, num_states=6):
    """Values of states that are alike within problems, and a predictor that is off by problem."""
    shape = num_problems, num_states
    hard_C = draw.beta(1.2, 1.2, num_problems)[:, None]
    p = np.clip(hard_C + 0.15 * draw.normal(size=shape), 0.005, 0.995)
    off = 0.1 * draw.normal(size=(num_problems, 1)) + 0.1 * draw.normal(size=shape)
    predicted = np.clip(0.3 + 0.5 * p + off, 0, 1)
    return p.ravel(), predicted.ravel(), np.repeat(np.arange(num_problems), num_states)


def test_the_interval_covers_within_two_points_of_its_level():
    draw = generator(7)
    p, v, _ = simulated_states(draw, 400_000)
    truth = {"bias": np.mean(v - p), "mse": np.mean((v - p) ** 2)}
    num_runs, statistics = 1500, {"bias": bias, "mse": corrected_mse}
    num_covered = dict.fromkeys([*truth, "alone"], 0)
    for _ in range(num_runs):
        p, v, problem_N = simulated_states(draw, 60)
        terms = error_terms(v, draw.binomial(256, p), 256, 0.1)
        found = bootstrap_sums(terms, problem_N, statistics, draw, num_resamples=400, level=0.95)
        for name, estimate in found.items():
            num_covered[name] += estimate.low <= truth[name] <= estimate.high
        # What an interval that takes states for independent covers.
        half_width = 1.96 * terms["error"].std(ddof=1) / math.sqrt(len(v))
        num_covered["alone"] += abs(found["bias"].value - truth["bias"]) <= half_width
    # A share of 1500 runs has a standard error of 0.56 points.
    assert num_covered["bias"] / num_runs == pytest.approx(0.95, abs=0.02)
    assert num_covered["mse"] / num_runs == pytest.approx(0.95, abs=0.02)
    assert num_covered["alone"] / num_runs < 0.8


def test_the_variance_of_a_constant_is_exactly_0_and_of_one_state_undefined():
    x = np.full(7, 0.1)
    assert variance(total({"one": np.ones(7), "x": x, "xx": x**2}), "x", "xx") == 0
    one = {"one": np.ones(1), "x": x[:1], "xx": x[:1] ** 2}
    assert np.isnan(variance(total(one), "x", "xx"))


def test_undefined_resamples_take_the_bounds_only_when_a_tail_could_be_theirs():
    resampled_R = np.linspace(0, 1, 1000)
    resampled_R[:25] = np.nan
    assert percentile_estimate(0.5, resampled_R, 0.95).low is not None
    resampled_R[25:27] = np.nan
    assert percentile_estimate(0.5, resampled_R, 0.95) == Estimate(0.5, None, None)
