"""Areas under curves by hand, and that stretches add up."""

import numpy as np
import pytest

from analysis.stats.curves import area_between, area_under_curve, common_support


def test_the_examples_of_the_docstrings():
    assert area_under_curve([0, 2, 6], [0.0, 0.5, 1.0]) == (2 * 0.25 + 4 * 0.75) / 6
    assert area_under_curve([5], [0.3]) == 0.3
    assert common_support([(0, 10, 20), (5, 30)]) == (5, 20)
    assert area_between((0, 10, 20), (0, 1, 1), 5, 15) == 0.875


def test_a_stretch_is_the_whole_and_stretches_add_up():
    draw = np.random.default_rng(0)
    costs, scores = np.sort(draw.random(9)), draw.random(9)
    low, middle, high = costs[0], 0.5, costs[-1]
    whole = area_between(costs, scores, low, high)
    assert whole == pytest.approx(np.trapezoid(scores, costs) / (high - low))
    assert whole == pytest.approx(area_under_curve(costs, scores))
    parts = [area_between(costs, scores, *ends) for ends in ((low, middle), (middle, high))]
    assert parts @ np.diff([low, middle, high]) == pytest.approx(whole * (high - low))


def test_curves_without_a_common_stretch_and_ends_beyond_a_curve_are_refused():
    with pytest.raises(ValueError, match="must have a stretch in common, got 5 to 5"):
        common_support([(0, 5), (5, 9)])
    for low, high in ((-1, 3), (3, 11), (4, 4)):
        with pytest.raises(ValueError, match=r"low and high must be in 0\.\.10"):
            area_between((0, 10), (0, 1), low, high)
