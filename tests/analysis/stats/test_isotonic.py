"""Isotonic fits against the max-min formula, by hand, and as weighted copies."""

import numpy as np
import pytest

from analysis.stats.isotonic import evaluate, isotonic_fit


def max_min(values, weights):
    """f_i = max over j ≤ i of the min over k ≥ i of the weighted mean of j … k."""
    num = len(values)
    return [
        max(
            min(np.average(values[j : k + 1], weights=weights[j : k + 1]) for k in range(i, num))
            for j in range(i + 1)
        )
        for i in range(num)
    ]


def test_the_examples_of_the_docstrings():
    points, fitted = isotonic_fit(
        np.array([0.2, 0.5, 0.5, 0.8]), np.array([0.4, 0, 0.4, 1]), np.ones(4)
    )
    assert points.tolist() == [0.2, 0.5, 0.8]
    assert fitted == pytest.approx([0.8 / 3, 0.8 / 3, 1])
    assert evaluate(np.array([0, 1]), np.array([0.2, 0.6]), np.array([0.5, 2, -1])) == (
        pytest.approx([0.4, 0.6, 0.2])
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_that_of_the_max_min_formula(seed):
    draw = np.random.default_rng(seed)
    predictions, truth, weights = draw.permutation(12) / 12, draw.random(12), draw.uniform(1, 5, 12)
    points, fitted = isotonic_fit(predictions, truth, weights)
    order = np.argsort(predictions)
    assert points == pytest.approx(predictions[order])
    assert fitted == pytest.approx(max_min(truth[order], weights[order]))
    assert np.all(np.diff(fitted) >= 0)
    assert np.average(fitted, weights=weights[order]) == pytest.approx(
        np.average(truth, weights=weights)
    )


def test_weights_are_copies_and_no_weight_is_no_state():
    draw = np.random.default_rng(9)
    predictions, truth = draw.integers(0, 8, 30) / 8, draw.random(30)
    weights = draw.integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weights)
    for one, other in zip(
        isotonic_fit(predictions, truth, weights),
        isotonic_fit(predictions[rows], truth[rows], np.ones(len(rows))),
        strict=True,
    ):
        assert one == pytest.approx(other)
    with pytest.raises(ValueError, match="weights_N must hold a positive weight"):
        isotonic_fit(predictions, truth, np.zeros(30))
