"""What learning costs: gradient steps, methods at equal cost, the cost of a target, the phases."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis import figures
from analysis.costs import (
    COSTS,
    at_equal_cost,
    cost_curve,
    default_target,
    draw_reached,
    reached,
    times_to_target,
)
from analysis.frames import gradient_steps, learning_curve, read_run
from analysis.learning_curves import method_phases, read_methods, run_phases, write_tables
from analysis.report.curves import phase_shares
from analysis.stats.bootstrap import Estimate
from analysis.tables import estimate
from vineppo.batching import shuffled_minibatches


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


def trained(run, **config):
    rollouts = {"num_prompts": 32, "num_samples": 8}
    optimization = {"num_epochs": 2, "batch_size": 100}
    given = {"rollouts": rollouts, "optimization": optimization} | config
    return replace(run, config=run.config | given)


def test_gradient_steps_are_the_updates_of_the_policy(run_path):
    run = read_run(run_path)
    assert gradient_steps(run).empty  # its config does not tell
    assert learning_curve(run)["gradient_steps"].isna().all()
    an_iteration = 2 * len(shuffled_minibatches(32 * 8, 100, seed=0))
    assert an_iteration == 6
    steps = gradient_steps(trained(run))
    assert steps.to_dict() == {i: 6 * i for i in range(13)}
    assert list(learning_curve(trained(run))["gradient_steps"]) == [0, 24, 48, 72]
    warm = gradient_steps(trained(run, critic={"warmup_iterations": 3}))
    assert (warm[3], warm[4], warm[12]) == (0, 6, 54)
    run.metrics.loc[6, "policy/skipped_updates"] = 2  # in iteration 7
    skipped = gradient_steps(trained(run))
    assert (skipped[6], skipped[7], skipped[12]) == (36, 40, 70)


def test_an_iteration_of_supervised_fine_tuning_is_one_update(run_path):
    run = read_run(run_path)
    config = {"name": "sft", "seed": 0, "optimization": {"num_epochs": 2, "batch_size": 100}}
    assert gradient_steps(replace(run, config=config)).to_dict() == {i: i for i in range(13)}


def test_a_curve_against_time_compares_seeds_at_equal_time(uneven):
    points = cost_curve(method(uneven, "vine"), "elapsed_s")
    # Up to 120 s, where the first seed ends, by way of the mean of 40 and 80 s.
    assert list(points["cost"]) == [0, 60, 120]
    # At 60 s the second is 3/4 of the way from 1/4 to 1/2; at 120 s both are at 1/2.
    assert list(points["pass@1"]) == [0.25, (0.5 + 0.4375) / 2, 0.5]
    assert (points["pass@1_low"][1], points["pass@1_high"][1]) == (0.4375, 0.5)


def test_at_equal_costs_the_curve_is_that_by_iteration(uneven):
    vine = method(uneven, "vine")
    by_iteration, by_tokens = (cost_curve(vine, cost) for cost in ("iteration", "tokens_sampled"))
    assert list(by_tokens["cost"]) == [0, 192_000, 384_000, 576_000]
    assert list(by_tokens["pass@1"]) == [0.25, 0.5, 0.5, 0.625]
    pd.testing.assert_frame_equal(by_tokens.drop(columns="cost"), by_iteration.drop(columns="cost"))


def test_seeds_that_share_no_stretch_of_a_cost_are_not_compared_at_it(methods_paths):
    """Without the start: 40 to 120 s, 160 to 480 s."""
    paths = methods_paths[:2]
    for _ in range(2):
        rewrite_metrics(paths[1], slowed)
    for path in paths:
        (path / "evaluations/iter_000000.json").unlink()
    rows, _ = read_methods(paths)
    assert cost_curve(rows, "elapsed_s").empty
    assert list(cost_curve(rows, "iteration")["cost"]) == [4, 8, 12]
    assert list(at_equal_cost(rows)["cost"]) == ["iteration", "tokens_sampled"]


def test_one_seed_is_its_own_curve_and_an_unknown_cost_none(uneven):
    ppo = method(uneven, "ppo")
    points = cost_curve(ppo, "elapsed_s")
    assert list(points["cost"]) == [0, 40, 80, 120]
    assert list(points["pass@1_low"]) == list(ppo["low"])  # over problems
    assert cost_curve(ppo, "gradient_steps").empty
    assert cost_curve(method(uneven, "vine"), "gradient_steps").empty


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
    assert (estimate(vine, "difference"), estimate(vine, "improvement")) == (None, None)
    # Over 120 s: (3/8 + 1/2 + 1/2)/3, and 80 s of 3/8 and 40 s of 1/2.
    assert vine["mean_pass@1_low"] == pytest.approx((80 * 0.375 + 40 * 0.5) / 120)
    assert vine["mean_pass@1_high"] == pytest.approx(1.375 / 3)
    assert ppo["mean_pass@1"] == pytest.approx((0.375 + 0.5 + 0.5625) / 3)
    assert (ppo["pass@1"], ppo.difference, ppo.improvement) == (0.625, 0.125, 1)
    assert (results.difference[1], results.improvement[1]) == (0, 0.5)


def by_name(times):
    return {(row["method"], row["cost"]): row for _, row in times.iterrows()}


def test_the_cost_of_a_target_that_all_reach(uneven):
    times = by_name(times_to_target(uneven, 0.5))
    vine, ppo = times["vine", "elapsed_s"], times["ppo", "elapsed_s"]
    assert (vine.num_reached, vine["median"], vine.horizon) == (2, 40, 80)
    assert estimate(vine, "restricted_mean") == Estimate(60, 40, 80)
    assert ppo["median"] == 40
    assert estimate(ppo, "restricted_mean") == Estimate(40, None, None)
    assert times["vine", "iteration"]["median"] == 4
    assert times["vine", "tokens_sampled"]["median"] == 192_000


def test_the_cost_of_a_target_that_some_never_reach_is_censored(uneven):
    times = by_name(times_to_target(uneven, 0.7))
    vine, ppo = times["vine", "elapsed_s"], times["ppo", "elapsed_s"]
    # vine at 120 s or later and at 240 s; ppo at 120 s or later: known of all are 120 s.
    assert (vine.num_reached, vine.num_seeds, ppo.num_reached) == (1, 2, 0)
    assert (vine["median"], vine.horizon, ppo.horizon) == (240, 120, 120)
    assert np.isnan(ppo["median"])
    assert vine.restricted_mean == ppo.restricted_mean == 120
    # By iteration the one that reaches does so when the other is last seen.
    assert (times["vine", "iteration"]["median"], times["vine", "iteration"].horizon) == (12, 12)


def test_up_to_the_common_horizon_the_restricted_mean_is_a_plain_mean(methods_paths):
    rows, _ = read_methods(methods_paths)
    for target in (0.5, 0.6, 0.7):
        for _, row in times_to_target(rows, target).iterrows():
            costs = []
            for _, seed in method(rows, row.method).groupby("seed"):
                there = seed[seed["pass@1"] >= target][row.cost]
                costs.append(min([*there[:1], row.horizon]))
            assert row.restricted_mean == pytest.approx(np.mean(costs))


def test_the_default_target_is_what_every_method_reaches(uneven, methods_paths):
    assert default_target(uneven) == 0.62  # both 0.625
    # ppo: (0.625 + 0.75 + 0.25)/3
    assert default_target(read_methods(methods_paths[2:])[0]) == 0.54


def test_the_figure_of_times_is_one_minus_kaplan_meier(uneven):
    times = reached(uneven, 0.7)
    with figures.panels(1, 1) as (_, axes):
        draw_reached(axes[0], COSTS["elapsed_s"], times[times["cost"] == "elapsed_s"])
        vine, ppo = axes[0].get_lines()[:2]
        assert (list(vine.get_xdata()), list(vine.get_ydata())) == ([0, 120, 240], [0, 0, 1])
        assert (list(ppo.get_xdata()), list(ppo.get_ydata())) == ([0, 120], [0, 0])


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
    write_tables(rows, phases, 0.5, out)
    pd.testing.assert_frame_equal(read_methods([out])[1], phases)
    (out / "phases.csv").unlink()
    assert read_methods([out])[1].empty  # a table of before there were any


def test_a_run_without_times_has_no_phases(run_path):
    rewrite_metrics(run_path, lambda row: {"iteration": row["iteration"]})
    run = read_run(run_path)
    assert run_phases(run).empty
    assert phase_shares(run).empty
