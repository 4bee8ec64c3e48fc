"""Slopes, occupancies, idle shares and word problems, worked out by hand."""

import pytest

from benchmarks.iteration import Watched, iterations
from benchmarks.occupancy import mean_occupancy
from benchmarks.scaling import slope
from benchmarks.watched_engine import EngineStep


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_slope_is_the_exponent(power):
    sizes = [1, 3, 9, 27]
    assert slope(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


def test_occupancy_is_weighted_by_time():
    steps = [EngineStep(0.0, 1.0, 1.0, 8), EngineStep(1.0, 4.0, 3.0, 2)]
    assert mean_occupancy(steps, max_num_seqs=8) == pytest.approx(0.4375)


def test_what_runs_side_by_side_is_busy_once():
    """Of 10 s: steps over 0 to 4 (callbacks from 3) and 6 to 8, passes over 2.5 to 5 and 4.5 to 7.

    Together 0 to 8; by themselves 3 + 2 and 4.5.
    """
    watched = Watched(
        metrics=[{"time/total_s": 10.0}],
        start_s=0.0,
        steps=[EngineStep(0.0, 4.0, 3.0, 5), EngineStep(6.0, 8.0, 2.0, 5)],
        passes_s=[(4.5, 7.0), (2.5, 5.0)],
    )
    (only,) = iterations(watched)
    assert (only.sampling, only.training, only.idle) == pytest.approx((0.5, 0.45, 0.2))
