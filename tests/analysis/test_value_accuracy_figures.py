"""Value accuracy: what the figures show of the tables."""

import pytest

from analysis import figures
from analysis.value_accuracy.overview_figure import PANELS, draw_method
from analysis.value_accuracy.strata import POSITION, VALUE
from analysis.value_accuracy.stratum_figure import draw_strata_panel
from analysis.value_accuracy.style import at_last, shown, styles, title


def table_rows(*rows):
    """Rows of the main table with what the figure needs; numbers by statistic, or None."""
    about = {"name": "vine", "seed": "1", "num_seeds": 1}
    return [
        about
        | {name: None for statistic in PANELS for name in bounded(statistic)}
        | {f"{statistic}_ceiling": None for statistic in PANELS}
        | row
        for row in rows
    ]


def bounded(statistic):
    return statistic, f"{statistic}_low", f"{statistic}_high"


def test_the_overview_shows_the_numbers_of_the_table():
    rows = table_rows(
        *(
            {"predictor": "mc_9", "num_draws": 9, "checkpoint": at, "mae": 0.05 + at / 100}
            | {"mae_low": 0.04, "mae_high": 0.07 + at / 100, "mae_floor": 0.05}
            for at in (0, 2)
        ),
        {"predictor": "critic", "num_draws": None, "checkpoint": 2, "mae": 0.1, "mae_floor": 0.01},
    )
    looks = styles(["critic", "mc_9"])
    with figures.panels(1, 3) as (_, axes):
        draw_method(axes, rows, looks, is_curve=True, is_log=False)
        critic, fresh, floor = (line.get_xydata().tolist() for line in axes[0].get_lines())
        assert critic == [[2, 0.1]]
        assert fresh == [[0, 0.05], [2, 0.07]]
        assert floor == [[0, 0.05], [2, 0.05]]
        bars = [path.vertices.tolist() for path in axes[0].collections[-1].get_paths()]
        assert bars == [
            [[0, 0.04], [0, pytest.approx(0.07)]],
            [[2, 0.04], [2, pytest.approx(0.09)]],
        ]
        assert axes[1].get_lines()[:] == []
    with figures.panels(1, 3) as (_, axes):
        draw_method(axes, rows[1:], looks, is_curve=False, is_log=False)
        names = [text.get_text() for text in axes[0].get_yticklabels()]
        dots = [line.get_xydata().tolist() for line in axes[0].get_lines()]
    assert names == ["critic", "MC 9"]
    assert dots[:3] == [[[0.1, 0]], [[0.07, 1]], [[0.05, 1]]]  # no floor of the critic


def test_strata_stand_where_they_belong_and_predictors_beside_each_other():
    about = {"mae_low": 0.0, "mae_high": 0.5}
    rows = [
        {"predictor": name, "stratum_index": index, "stratum": f"s{index}", "mae": mae} | about
        for name, index, mae in (("critic", 1, 0.3), ("critic", 3, 0.2), ("mc_9", 3, 0.1))
    ]
    looks = styles(["critic", "mc_9"])
    with figures.panels(1, 2) as (_, axes):
        for axis, kind in zip(axes, (POSITION, VALUE), strict=True):
            draw_strata_panel(axis, rows, "mae", looks, is_line=kind == POSITION)
            critic, fresh = (line.get_xydata() for line in axis.get_lines())
            assert critic.tolist() == [[1 - 0.15, 0.3], [3 - 0.15, 0.2]]
            assert fresh.tolist() == [[3 + 0.15, 0.1]]
        ticks = [[text.get_text() for text in axis.get_xticklabels()] for axis in axes]
    assert ticks == [["0", "20", "40", "60", "80", "100"], ["s1", "s3"]]


def test_a_figure_shows_all_seeds_together_at_the_last_policy_that_trained():
    rows = [
        {"name": "vine", "seed": seed, "checkpoint": at, "predictor": "mc_1", "num_seeds": num}
        | {"is_own_policy": int(at < 4)}
        for at, seeds in ((0, ("1", "2", "all")), (2, ("1", "2", "all")), (4, ("1",)))
        for seed in seeds
        for num in [2 if seed == "all" else 1]
    ]
    chosen = shown(rows)
    assert [(row["checkpoint"], row["seed"]) for row in chosen] == [
        (0, "all"),
        (2, "all"),
        (4, "1"),
    ]
    assert at_last(chosen) == [chosen[1]]
    assert at_last(chosen[2:]) == [chosen[2]]
    assert (title(chosen), title(chosen[2:])) == ("vine, 2 seeds", "vine, seed 1, checkpoint 4")
