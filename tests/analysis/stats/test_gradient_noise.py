"""Gradient noise by hand, against numpy's covariance, unbiased and with its bootstrap."""

import math

import numpy as np
import pytest

from analysis.stats.gradient_noise import (
    GradientNoise,
    adam_gains,
    gain_estimates,
    jackknife,
    noise_from_gram,
)


def gram(gradients_ND):
    return gradients_ND @ gradients_ND.T


def test_the_examples_of_the_docstrings():
    found = noise_from_gram(np.array([[1, 1], [1, 5]]), np.ones(2))
    assert found == GradientNoise(trace=2, squared_norm=1)


def test_the_trace_is_that_of_numpys_covariance():
    gradients_ND = np.random.default_rng(0).normal(size=(9, 4)) + 0.3
    by_gram = noise_from_gram(gram(gradients_ND), np.ones(9))
    assert by_gram.trace == pytest.approx(np.trace(np.cov(gradients_ND.T)))
    mean_D = gradients_ND.mean(axis=0)
    assert by_gram.squared_norm == pytest.approx(mean_D @ mean_D - by_gram.trace / 9)


def test_both_are_unbiased_where_the_plain_norm_is_not():
    draw = np.random.default_rng(1)
    scale_D, mean_D = np.array([1, 2, 0.5]), np.array([0.3, 0, -0.4])
    gradients_RND = mean_D + scale_D * draw.normal(size=(20_000, 6, 3))
    noises = [noise_from_gram(gram(gradients_ND), np.ones(6)) for gradients_ND in gradients_RND]
    plain_R = (gradients_RND.mean(axis=1) ** 2).sum(axis=1)
    for values, expected in (
        (np.array([noise.trace for noise in noises]), 5.25),
        (np.array([noise.squared_norm for noise in noises]), 0.25),
    ):
        assert values.mean() == pytest.approx(expected, abs=4 * values.std() / math.sqrt(20_000))
    assert plain_R.mean() > 1  # 0.25 + 5.25/6


def test_weights_are_copies_that_are_never_paired_with_themselves():
    gradients_ND = np.random.default_rng(2).normal(size=(5, 3))
    weights = np.array([2, 0, 1, 3, 1])
    pairs = [(i, j, weights[i] * weights[j]) for i in range(5) for j in range(5) if i != j]
    weight = sum(w for *_, w in pairs)
    found = noise_from_gram(gram(gradients_ND), weights)
    distance = sum(w * ((gradients_ND[i] - gradients_ND[j]) ** 2).sum() for i, j, w in pairs)
    assert found.trace == pytest.approx(distance / 2 / weight)
    product = sum(w * gradients_ND[i] @ gradients_ND[j] for i, j, w in pairs)
    assert found.squared_norm == pytest.approx(product / weight)


def test_what_cannot_be_known_is_undefined_or_refused():
    assert math.isnan(noise_from_gram(np.eye(3), np.array([3, 0, 0])).trace)
    assert noise_from_gram(np.eye(3), np.ones(3)).squared_norm == 0
    assert noise_from_gram(np.ones((3, 3)), np.ones(3)).trace == 0
    assert math.isnan(noise_from_gram(np.eye(1), np.ones(1)).trace)


def test_what_adam_gains_by_hand():
    rows_NC = np.array([[1.0, 0], [3, 2], [2, 4]])  # without the last: means 2, 1; variances 2, 2
    squares = 4 - 2 / 2, 1 - 2 / 2
    by_hand = sum(square / math.sqrt(square + 2 / 5) for square in squares)
    assert adam_gains(rows_NC, rows_NC, 5)[-1] == pytest.approx(by_hand)
    # Another's noise slows a step down; a scaled copy of the signal gains as much as the signal.
    noisy_NC = rows_NC + np.array([[6.0, 0], [-6, 0], [0, 0]])
    slowed = squares[0] / math.sqrt(squares[0] + 50 / 5)
    assert adam_gains(noisy_NC, rows_NC, 5)[-1] == pytest.approx(slowed)
    signal_NC = np.random.default_rng(0).normal(size=(9, 50)) + 3
    scaled_M = adam_gains(4 * signal_NC, signal_NC, 5, is_scaled=True)
    gains_M = adam_gains(signal_NC, signal_NC, 5)
    np.testing.assert_allclose(scaled_M, gains_M, rtol=0.02)
    # The first is that of all units: what a tenth leaves behind.
    ten_NC = np.vstack([signal_NC, np.ones((1, 50))])
    assert adam_gains(ten_NC, ten_NC, 5)[-1] == pytest.approx(gains_M[0])
    assert adam_gains(ten_NC, ten_NC, 5).shape == (11,)


def test_noise_without_signal_costs_adam_nothing_but_all_of_the_trace():
    generator = np.random.default_rng(1)
    signal_NC = np.repeat([1.0, 0.0], 200) + 0.1 * generator.normal(size=(64, 400))
    noisy_NC = signal_NC + 3 * generator.normal(size=(64, 400)) * np.repeat([0, 1], 200)
    traces = [noise_from_gram(gram(rows), np.ones(64)).trace for rows in (signal_NC, noisy_NC)]
    assert traces[1] > 100 * traces[0]
    gains = [adam_gains(rows, signal_NC, 4)[0] for rows in (signal_NC, noisy_NC)]
    assert gains[1] == pytest.approx(gains[0], rel=0.02)


def test_the_jackknife_of_a_mean_is_that_of_students_t():
    x_N = np.array([1.0, 4, 2, 9])
    interval = jackknife(4, (x_N.sum() - x_N) / 3)
    error = 3.182446 * np.std(x_N, ddof=1) / 2
    assert (interval.value, interval.high - interval.value) == pytest.approx((4, error))
    assert jackknife(math.nan, x_N).low is None


def test_a_gain_loses_its_bias_and_a_ratio_has_the_error_of_its_linear_part():
    assert gain_estimates(np.array([[3.0, 2, 3]]))[0][0].value == pytest.approx(9.5 / 3)
    # A bias of 7/N² is gone.
    biased = np.array([[5 - 7 / 81] + [5 - 7 / 64] * 9])
    assert gain_estimates(biased)[0][0].value == pytest.approx(5)
    gains_EM = np.array([[2.0, 1.9, 2.0, 2.1], [3.0, 2.7, 3.0, 3.3]])
    (first, one), (_, ratio) = gain_estimates(gains_EM)
    assert (one.value, one.low, one.high) == (1, 1, 1)
    assert ratio.value == pytest.approx(1.5)
    error = math.sqrt(2 * np.var([2.7 - 1.5 * 1.9, 0, 3.3 - 1.5 * 2.1])) / first.value
    assert ratio.high - ratio.value == pytest.approx(4.302653 * error)
    # Without the gain of all units: the means, with their bias. No signal: no ratio.
    gains_EM[:, 0] = math.nan
    assert gain_estimates(gains_EM)[1][1].value == pytest.approx(1.5)
    assert math.isnan(gain_estimates(-gains_EM)[1][1].value)
