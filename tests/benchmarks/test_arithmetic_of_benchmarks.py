"""Work that runs side by side counts once as busy, worked out by hand."""

import pytest

from benchmarks.iteration import Watched, iterations
from benchmarks.watched_engine import EngineStep


def test_what_runs_side_by_side_is_busy_once():
    """Of 10 s: steps over 0 to 4 (callbacks from 3) and 6 to 8, passes over 2.5 to 5 and 4.5 to 7.

    Together 0 to 8; by themselves 3 + 2 and 4.5.
    """
    watched = Watched(
        metrics=[{"time/total_s": 10.0}],
        start_s=0.0,
        steps=[EngineStep(0.0, 4.0, 3.0), EngineStep(6.0, 8.0, 2.0)],
        passes_s=[(4.5, 7.0), (2.5, 5.0)],
    )
    (only,) = iterations(watched)
    assert (only.sampling, only.training, only.idle) == pytest.approx((0.5, 0.45, 0.2))
