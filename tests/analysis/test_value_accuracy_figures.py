"""Value accuracy: what the figures show of the tables."""

import pandas as pd
import pytest

from analysis import figures
from analysis.value_accuracy import OF_STATES, SCORES
from analysis.value_figures import (
    at_last,
    draw_panel,
    shown,
    styles,
    title,
)


def table_of(*rows):
    """Rows of the long table with what the figures need."""
    about = dict(zip(OF_STATES, ("vine", "1", 0, 1), strict=False))
    about |= {"stratum": "boundaries", "num_states": 9, "num_problems": 3}
    return SCORES.frame([about | row for row in rows])


def test_the_overview_shows_the_numbers_of_the_table():
    points = [(0, "mae", 0.05), (2, "mae", 0.07), (0, "mae_floor", 0.05), (2, "mae_floor", 0.04)]
    rows = table_of(
        *(
            {"predictor": "mc_9", "checkpoint": at, "metric": metric, "value": value}
            | {"value_low": value - 0.01, "value_high": value + 0.02}
            for at, metric, value in points
        ),
        {"predictor": "critic", "checkpoint": 2, "metric": "mae", "value": 0.1},
        {"predictor": "critic", "checkpoint": 2, "metric": "mae_floor", "value": 0.01},
    )
    looks = styles(["critic", "mc_9"])
    with figures.panels(1, 2) as (_, axes):
        draw_panel(axes[0], rows, "checkpoint", [0, 2], "mae", looks, "mae_floor")
        critic, fresh, floor = (line.get_xydata().tolist() for line in axes[0].get_lines())
        assert critic == [[1 - 0.15, 0.1]]  # no floor of the critic
        assert fresh == [[0.15, 0.05], [1.15, 0.07]]
        assert floor == [[0.15, 0.05], [1.15, 0.04]]
        bars = [path.vertices.tolist() for path in axes[0].collections[-1].get_paths()]
        assert bars == [
            [[0.15, pytest.approx(0.04)], [0.15, pytest.approx(0.07)]],
            [[1.15, pytest.approx(0.06)], [1.15, pytest.approx(0.09)]],
        ]
        draw_panel(axes[1], rows, "checkpoint", [0, 2], "pearson", looks)
        assert axes[1].get_lines()[:] == []


def test_a_figure_shows_all_seeds_together_at_the_last_policy_that_trained():
    rows = pd.DataFrame(
        [
            {"method": "vine", "seeds": seeds, "checkpoint": at, "predictor": "mc_1"}
            | {"is_own_policy": int(at < 4)}
            for at, every in ((0, ("1", "2", "1 2")), (2, ("1", "2", "1 2")), (4, ("1",)))
            for seeds in every
        ]
    )
    chosen = shown(rows)
    assert list(zip(chosen["checkpoint"], chosen["seeds"], strict=True)) == [
        (0, "1 2"),
        (2, "1 2"),
        (4, "1"),
    ]
    assert list(at_last(chosen)["checkpoint"]) == [2]
    assert list(at_last(chosen[2:])["checkpoint"]) == [4]
    assert (title(chosen), title(chosen[2:])) == ("vine, 2 seeds", "vine, seed 1, checkpoint 4")
