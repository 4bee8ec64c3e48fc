"""Costs of learning: gradient steps, methods at equal cost, a target, the phases."""

import json

import pandas as pd
import pytest

from analysis.costs import at_equal_cost, cost_curve
from analysis.frames import read_run
from analysis.learning_curves import method_phases, read_methods, run_phases, write_tables
from analysis.tables import estimate


def rewrite_metrics(path, change):
    file = path / "metrics.jsonl"
    rows = [change(json.loads(line)) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def slowed(row):
    return row | {"time/elapsed_s": 2 * row["time/elapsed_s"]}


@pytest.fixture
def uneven(methods_paths):
    """Two seeds of vine, of which one takes twice the time, and one of ppo.

    Scores at iterations 0, 4, 8, 12: (1/4, 1/2, 1/2, 1/2) at 0, 40, 80 and 120 s; (…, 3/4) at 0,
    80, 160 and 240 s; ppo (…, 5/8) at 0, 40, 80 and 120 s.
    """
    paths = [methods_paths[0], methods_paths[1], methods_paths[5]]
    rewrite_metrics(paths[1], slowed)
    return read_methods(paths)[0]


def method(rows, name):
    return rows[rows["method"] == name]


def test_a_curve_against_time_compares_seeds_at_equal_time(uneven):
    points = cost_curve(method(uneven, "vine"), "elapsed_s")
    # Up to 120 s, where the first seed ends, by way of the mean of 40 and 80 s.
    assert list(points["cost"]) == [0, 60, 120]
    # At 60 s the second is 3/4 of the way from 1/4 to 1/2; at 120 s both are at 1/2.
    assert list(points["pass@1"]) == [0.25, (0.5 + 0.4375) / 2, 0.5]
    assert (points["pass@1_low"][1], points["pass@1_high"][1]) == (0.4375, 0.5)


def test_methods_at_equal_cost_by_hand(uneven):
    results = at_equal_cost(uneven)
    assert results[["cost", "method", "budget"]].to_numpy().tolist() == [
        ["iteration", "vine", 12],
        ["iteration", "ppo", 12],
        ["elapsed_s", "vine", 120],
        ["elapsed_s", "ppo", 120],
        ["tokens_sampled", "vine", 576_000],
        ["tokens_sampled", "ppo", 576_000],
    ]
    vine, ppo = results.iloc[2], results.iloc[3]
    assert vine["pass@1"] == 0.5
    assert estimate(vine, "difference") is None
    # Over 120 s: (3/8 + 1/2 + 1/2)/3, and 80 s of 3/8 and 40 s of 1/2.
    assert vine["mean_pass@1_low"] == pytest.approx((80 * 0.375 + 40 * 0.5) / 120)
    assert vine["mean_pass@1_high"] == pytest.approx(1.375 / 3)
    assert ppo["mean_pass@1"] == pytest.approx((0.375 + 0.5 + 0.5625) / 3)
    assert (ppo["pass@1"], ppo.difference, results.difference[1]) == (0.625, 0.125, 0)


def test_the_phases_of_a_run_by_hand(run_path):
    rewrite_metrics(run_path, lambda row: row | {"time/evaluate_s": row["iteration"] % 2 * 0.25})
    rows = run_phases(read_run(run_path))
    assert dict(zip(rows["phase"], rows["seconds"], strict=True)) == {
        "rollouts": 2,
        "values": 5,
        "grading": 0.5,
        "update": 2,
        "weight sync": 0.25,
        "other": 0.125,  # 0.25 s of 10, where they were no evaluation
    }
    assert list(rows["share"][:2]) == [2 / 9.875, 5 / 9.875]
    assert rows["share"].sum() == pytest.approx(1)
    assert set(rows["num_iterations"]) == {12}


def test_the_phases_of_a_method_are_means_over_its_seeds(methods_paths, tmp_path):
    paths = [methods_paths[1], methods_paths[0], methods_paths[5]]
    rewrite_metrics(paths[0], lambda row: row | {"time/values_s": 0, "time/total_s": 5})
    rows, phases = read_methods(paths)
    seconds = method_phases(phases)
    assert list(seconds.index) == ["vine", "ppo"]
    assert (seconds["values"]["vine"], seconds.sum(axis=1)["vine"]) == (2.5, 7.5)
    assert seconds.sum(axis=1)["ppo"] == 10
    out = tmp_path / "out"
    write_tables(rows, phases, out)
    pd.testing.assert_frame_equal(read_methods([out])[1], phases)
    (out / "phases.csv").unlink()
    assert read_methods([out])[1].empty  # a table of before there were any
