"""Effects of several settings as one: by hand, and exact on simulated settings."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import t

from analysis.stats.bootstrap import Estimate
from analysis.stats.comparison import Comparison, components, welch
from analysis.stats.pooling import pooled, pooled_permutation_p


def test_the_examples_of_the_docstrings():
    half = 4.302653 * 0.03
    parts = [Comparison(Estimate(x, x - half, x + half), 2.0, 0.5) for x in (0.1, 0.3)]
    found = pooled(parts)
    assert (found.effect.value, found.df) == pytest.approx((0.2, 4))
    assert found.effect.high - 0.2 == pytest.approx(2.776445 * 0.03 / 2**0.5, rel=1e-5)
    assert found.p_value == pytest.approx(2 * t.sf(0.2 / (0.03 / 2**0.5), 4))
    pair = ((3, 4, 5), (0, 1, 2))
    assert pooled_permutation_p([pair, pair], is_paired=False) == 2 / 400
    parts = components([{1: 0.4, 2: 0.6}, {1: 0.5, 2: 0.7}], 0.0)
    assert parts.spread.seed_sd**2 == pytest.approx(0.02)
    assert (parts.spread.correlation, parts.df, parts.num_pairs) == (pytest.approx(1), 1, 2)


def test_a_single_setting_is_itself_and_one_without_an_interval_leaves_none():
    alone = welch((0.6, 0.7, 0.8), (0.5, 0.5, 0.6))
    again = pooled([alone])
    assert (again.effect.low, again.df, again.p_value) == pytest.approx(
        (alone.effect.low, alone.df, alone.p_value)
    )
    assert pooled([alone, welch([0.5], [0.4])]).effect.low is None


def test_pairs_are_swapped_within_their_setting():
    settings = [((3.0, 1.0), (1.0, 2.0)), ((5.0, 0.0, 1.0), (0.0, 0.0, 0.0))]
    differences = [np.subtract(*pair) for pair in settings]
    effects = [
        sum(
            np.mean(np.array(s) * d)
            for s, d in zip((signs[:2], signs[2:]), differences, strict=True)
        )
        for signs in product((1, -1), repeat=5)
    ]
    far = np.abs(effects) >= abs(effects[0]) - 1e-12
    assert pooled_permutation_p(settings, is_paired=True) == far.mean()


def test_too_many_assignments_are_drawn_and_agree_with_t():
    draw = np.random.default_rng(5)
    settings = [(draw.normal(0.5, 1, 9), draw.normal(0, 1, 9)) for _ in range(2)]
    for is_paired in (False, True):
        drawn = pooled_permutation_p(settings, is_paired=is_paired)
        by_t = pooled([welch(*pair) for pair in settings]).p_value
        assert drawn == pytest.approx(by_t, abs=0.05)
    assert pooled_permutation_p([([], [])], is_paired=True) is None


def test_pooled_intervals_hold_the_mean_effect_as_often_as_they_say():
    draw = np.random.default_rng(6)
    held = 0
    for _ in range(1000):
        settings = [
            welch(draw.normal(mean, sd, 4), draw.normal(0, sd, 4))
            for mean, sd in ((0.1, 0.02), (0.3, 0.05), (0.2, 0.03))
        ]
        effect = pooled(settings).effect
        held += effect.low <= 0.2 <= effect.high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)
