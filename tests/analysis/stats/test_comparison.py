"""Comparisons of two methods: by hand, by enumeration, and in simulations with known effects."""

from itertools import combinations

import numpy as np
import pytest

from analysis.stats import comparison
from analysis.stats.bootstrap import Estimate
from analysis.stats.comparison import Comparison, permutation_p, welch

T_2 = 4.302653  # the 97.5 % quantile of t with two degrees of freedom


def test_the_examples_of_the_docstrings():
    half = T_2 * 0.1 / 3**0.5
    found = welch((0.6, 0.7, 0.8), (0.5, 0.5, 0.5))
    assert (found.effect.value, found.df) == pytest.approx((0.2, 2))
    assert (found.effect.low, found.effect.high) == pytest.approx((0.2 - half, 0.2 + half))
    assert permutation_p((3, 4, 5), (0, 1, 2)) == 0.1
    assert permutation_p((0.62, 0), (0, 0, 0.07)) == 0.4


@pytest.mark.parametrize(("num_method", "num_baseline"), [(4, 5), (8, 8)])
def test_a_permutation_test_counts_the_assignments_that_are_as_far_apart(num_method, num_baseline):
    scores = np.random.default_rng(0).random(num_method + num_baseline)
    method, baseline = np.split(scores, [num_method])
    every = map(list, combinations(range(len(scores)), num_method))
    differences = [scores[i].mean() - np.delete(scores, i).mean() for i in every]
    far = np.abs(differences) >= abs(method.mean() - baseline.mean()) - 1e-12
    assert permutation_p(method, baseline) == pytest.approx(far.mean())
    assert permutation_p(baseline, method) == pytest.approx(far.mean())


def test_too_many_assignments_are_drawn(monkeypatch):
    draw = np.random.default_rng(1)
    x, y = draw.normal(0.5, 1, 9), draw.normal(0, 1, 9)
    exact = permutation_p(x, y)
    monkeypatch.setattr(comparison, "MAX_ASSIGNMENTS", 10_000)
    assert permutation_p(x, y) == pytest.approx(exact, abs=0.02)


def test_what_gives_no_interval():
    one = Comparison(Estimate(0.25, None, None))
    assert welch([0.75], [0.5]) == welch([0.75], [0.5, 0.5]) == one
    assert welch([0.75, 0.75], [0.5, 0.5]) == one
    assert permutation_p([0.75], [0.5, 0.5]) is None
