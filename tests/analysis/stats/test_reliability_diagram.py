"""Reliability curves and bins by hand, and how often their bands hold the curve."""

import numpy as np
import pytest

from analysis.stats.reliability_diagram import (
    Bin,
    binned,
    confidence_band,
    consistency_band,
    corp_curve,
)

AT = np.linspace(0.15, 0.85, 8)


def test_the_examples_of_the_docstrings():
    points, truth = corp_curve(np.array([0.2, 0.5, 0.5, 0.8]), np.array([2, 0, 2, 5]), 5)
    assert points.tolist() == [0.2, 0.5, 0.8]
    assert truth == pytest.approx([0.8 / 3, 0.8 / 3, 1])
    assert binned(np.array([0, 0.25, 1]), np.array([0, 2, 4]), 4, 2) == [
        Bin(0, 0.5, 2, 0.125, 0.25),
        Bin(0.5, 1, 1, 1, 1),
    ]
    draw = np.random.default_rng(0)
    at, settings = np.array([0.0, 1.0]), {"num_resamples": 20, "level": 0.9}
    for bound in consistency_band(at, 8, at, draw, **settings):
        assert bound.tolist() == [0, 1]
    halves = np.full(6, 0.5), np.full(6, 2), 4, np.arange(6), np.array([0.5])
    assert [b.tolist() for b in confidence_band(*halves, draw, **settings)] == [[0.5], [0.5]]


def test_bins_hold_every_state_once_and_what_lies_outside_in_the_outermost():
    predictions = np.array([-0.2, 0.0, 0.1, 0.5, 0.99, 1.0, 1.3])
    bins = binned(predictions, np.arange(7), 8, 10)
    assert [(one.low, one.num_states) for one in bins] == [(0, 2), (0.1, 1), (0.5, 1), (0.9, 3)]
    assert sum(one.truth * one.num_states for one in bins) == pytest.approx(21 / 8)
    assert bins[0].prediction == pytest.approx(-0.1)
    # 0.29 · 100 is less than 29 in floating point.
    assert binned(np.array([0.29]), np.array([1]), 4, 100)[0].low == 0.29


def test_the_consistency_band_holds_the_curve_of_predictions_that_are_the_values():
    draw = np.random.default_rng(1)
    settings = {"num_resamples": 200, "level": 0.9}
    values_N = draw.uniform(0, 1, 100)
    low, high = consistency_band(values_N, 16, AT, draw, **settings)
    assert np.all((low < AT) & (high > AT))
    curves = np.array(
        [np.interp(AT, *corp_curve(values_N, draw.binomial(16, values_N), 16)) for _ in range(1000)]
    )
    coverage = np.mean((low <= curves) & (curves <= high))
    assert coverage == pytest.approx(0.9, abs=0.03)
    # Predictions that are too extreme leave it.
    extreme_N = np.clip(0.5 + 1.8 * (values_N - 0.5), 0, 1)
    curve = np.interp(AT, *corp_curve(extreme_N, draw.binomial(16, values_N), 16))
    low, high = consistency_band(extreme_N, 16, AT, draw, **settings)
    assert curve[0] > high[0]
    assert curve[-1] < low[-1]


def test_the_confidence_band_knows_that_states_of_a_problem_are_alike():
    draw = np.random.default_rng(2)
    problem_N = np.repeat(np.arange(80), 8)
    predictions_N = np.clip(draw.uniform(0, 1, 80)[problem_N] + 0.02 * draw.normal(size=640), 0, 1)
    values_N = np.clip(predictions_N + 0.2 * draw.normal(size=80)[problem_N], 0, 1)
    counts_N = draw.binomial(64, values_N)
    settings = {"num_resamples": 200, "level": 0.9}
    low, high = confidence_band(predictions_N, counts_N, 64, problem_N, AT, draw, **settings)
    alone = confidence_band(predictions_N, counts_N, 64, np.arange(640), AT, draw, **settings)
    curve = np.interp(AT, *corp_curve(predictions_N, counts_N, 64))
    assert np.all((low <= curve) & (curve <= high))
    assert np.mean(high - low) > 1.5 * np.mean(alone[1] - alone[0])
    # That every prediction were the value of its state is refuted, though they are calibrated.
    consistent = consistency_band(predictions_N, 64, AT, draw, **settings)
    assert np.mean(consistent[1] - consistent[0]) < 0.6 * np.mean(high - low)
