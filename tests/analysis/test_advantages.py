"""Advantages by hand: their spread, their places, critical steps, redrawing, and bad input."""

from types import SimpleNamespace

import numpy as np
import pytest

from analysis.__main__ import main, open_analysis
from analysis.notebooks import REPOSITORY

NAME = str(REPOSITORY / "experiments/15_advantages/advantages.py")
MODULE = open_analysis(NAME)[0]
TABLES, draw_iteration, with_advantages = (
    MODULE.TABLES, MODULE.draw_iteration, MODULE.with_advantages
)  # fmt: skip
# Of conftest's run: three problems with a wrong and a right response of three steps each, whose
# Monte-Carlo values are 1/2, 3/4 and 0: advantages of 1/4, −3/4 and the reward.


def analyse(out, *arguments):
    assert main([NAME, f"--out={out}", *map(str, arguments)]) == 0
    read = {name: table.read(out) for name, table in TABLES.items() if table.holds(out)}
    return SimpleNamespace(**read)


def only(frame, **wanted):
    """The rows of a table, those that are wanted."""
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    assert len(frame), wanted
    return list(frame.itertuples())


@pytest.fixture
def tables(run_path, tmp_path):
    return analyse(tmp_path / "out", run_path)


def test_the_spread_by_hand(tables):
    for source in ("trained", "mc"):
        (every,) = only(tables.spread, source=source, group="all")
        assert (every.method, every.seed, every.iteration) == ("vine", 0, 12)
        assert (every.num_rollouts, every.num_steps) == (6, 18)
        assert (every.mean, every.mean_abs) == (0, 0.5)
        assert every.std == pytest.approx(np.std([0.25, -0.75, 0, 0.25, -0.75, 1]))
        # The last step of the wrong responses changes nothing.
        assert (every.near_zero, every.zero) == (3 / 18, 3 / 18)
        assert (every.near_zero_low, every.near_zero_high) == (3 / 18, 3 / 18)
        # 3/4 of 1 where it is wrong, 1 of 2 where it is right.
        assert (every.top_share, every.even_share) == (0.625, pytest.approx(1 / 3))
        (wrong,) = only(tables.spread, source=source, group="incorrect")
        (right,) = only(tables.spread, source=source, group="correct")
        assert (wrong.top_share, right.top_share) == (0.75, 0.5)
        assert (wrong.near_zero, right.near_zero) == (pytest.approx(1 / 3), 0)
        assert (wrong.num_critical_rollouts, right.num_critical_rollouts) == (3, 3)


def test_places_by_hand(tables):
    for axis, bins in (("start", (0, 1, 2)), ("end", (2, 1, 0)), ("relative", (0, 2, 4))):
        rows = only(tables.places, source="trained", group="all", axis=axis)
        by_bin = {row.bin: row for row in rows}
        assert sorted(by_bin) == sorted(bins)
        first, second, third = (by_bin[index] for index in bins)
        assert (first.mean, first.mean_abs) == (0.25, 0.25)
        assert (second.mean, second.mean_abs) == (-0.75, 0.75)
        assert (third.mean, third.near_zero, third.num_steps) == (0.5, 0.5, 6)
        # The critical step is the second of the wrong responses and the last of the right ones.
        assert [row.critical for row in (first, second, third)] == [0, 0.5, 0.5]
        assert [row.even for row in (first, second, third)] == pytest.approx([1 / 3] * 3)
