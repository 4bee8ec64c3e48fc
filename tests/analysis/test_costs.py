"""What learning costs: gradient steps, methods at equal cost, the cost of a target, the phases."""

import json
from dataclasses import replace

import numpy as np
import pytest
from analysis.learning_curves.cost_curves import (
    ELAPSED,
    GRADIENT_STEPS,
    ITERATION,
    TOKENS,
    cost_curve,
)
from analysis.learning_curves.equal_cost import at_equal_cost
from analysis.learning_curves.phases import method_phases, phase_rows, read_phases
from analysis.learning_curves.time_to_target import default_target, draw_times, times_to_target
from analysis.methods import read_methods
from analysis.stats.censored import kaplan_meier

from analysis import figures
from analysis.frames import gradient_steps, learning_curve, read_run
from analysis.learning_curves import write_tables
from analysis.training_curves import time_shares
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
    return read_methods(paths)


def trained(run, **config):
    rollouts = {"num_prompts": 32, "num_samples": 8}
    optimization = {"num_epochs": 2, "batch_size": 100}
    given = {"rollouts": rollouts, "optimization": optimization} | config
    return replace(run, config=run.config | given)


def test_gradient_steps_are_the_updates_of_the_policy(run_path):
    run = read_run(run_path)
    assert gradient_steps(run) == {}  # its config does not tell
    assert learning_curve(run)[-1].gradient_steps is None
    an_iteration = 2 * len(shuffled_minibatches(32 * 8, 100, seed=0))
    assert an_iteration == 6
    steps = gradient_steps(trained(run))
    assert steps == {i: 6 * i for i in range(13)}
    assert [point.gradient_steps for point in learning_curve(trained(run))] == [0, 24, 48, 72]
    warm = gradient_steps(trained(run, critic={"warmup_iterations": 3}))
    assert (warm[3], warm[4], warm[12]) == (0, 6, 54)
    run.metrics[6]["policy/skipped_updates"] = 2  # in iteration 7
    skipped = gradient_steps(trained(run))
    assert (skipped[6], skipped[7], skipped[12]) == (36, 40, 70)


def test_an_iteration_of_supervised_fine_tuning_is_one_update(run_path):
    run = read_run(run_path)
    config = {"name": "sft", "seed": 0, "optimization": {"num_epochs": 2, "batch_size": 100}}
    assert gradient_steps(replace(run, config=config)) == {i: i for i in range(13)}


def test_a_curve_against_time_compares_seeds_at_equal_time(uneven):
    points = cost_curve(uneven[0], ELAPSED)
    # Up to 120 s, where the first seed ends, by way of the mean of 40 and 80 s.
    assert [point.cost for point in points] == [0, 60, 120]
    # At 60 s the second is 3/4 of the way from 1/4 to 1/2; at 120 s both are at 1/2.
    assert [point.pass_at_1 for point in points] == [0.25, (0.5 + 0.4375) / 2, 0.5]
    assert (points[1].low, points[1].high) == (0.4375, 0.5)


def test_at_equal_costs_the_curve_is_that_by_iteration(uneven):
    by_iteration, by_tokens = (cost_curve(uneven[0], cost) for cost in (ITERATION, TOKENS))
    assert [point.cost for point in by_tokens] == [0, 192_000, 384_000, 576_000]
    assert [point.pass_at_1 for point in by_tokens] == [0.25, 0.5, 0.5, 0.625]
    assert [replace(point, cost=0) for point in by_tokens] == [
        replace(point, cost=0) for point in by_iteration
    ]


def test_seeds_that_share_no_stretch_of_a_cost_are_not_compared_at_it(methods_paths):
    """Without the start: 40 to 120 s, 160 to 480 s."""
    paths = methods_paths[:2]
    for _ in range(2):
        rewrite_metrics(paths[1], slowed)
    for path in paths:
        (path / "evaluations/iter_000000.json").unlink()
    methods = read_methods(paths)
    assert cost_curve(methods[0], ELAPSED) == []
    assert [point.cost for point in cost_curve(methods[0], ITERATION)] == [4, 8, 12]
    assert [one.cost for one in at_equal_cost(methods)] == ["iteration", "tokens_sampled"]


def test_one_seed_is_its_own_curve_and_an_unknown_cost_none(uneven):
    ppo = uneven[1]
    (rows,) = ppo.rows_by_seed.values()
    points = cost_curve(ppo, ELAPSED)
    assert [point.cost for point in points] == [0, 40, 80, 120]
    assert [point.low for point in points] == [row.low for row in rows]  # over problems
    assert cost_curve(ppo, GRADIENT_STEPS) == cost_curve(uneven[0], GRADIENT_STEPS) == []


def test_methods_at_equal_cost_by_hand(uneven):
    results = at_equal_cost(uneven)
    assert [(one.cost, one.method, one.budget) for one in results] == [
        ("iteration", "vine", 12),
        ("iteration", "ppo", 12),
        ("elapsed_s", "vine", 120),
        ("elapsed_s", "ppo", 120),
        ("tokens_sampled", "vine", 576_000),
        ("tokens_sampled", "ppo", 576_000),
    ]
    vine, ppo = results[2:4]
    assert (vine.pass_at_1.value, vine.difference, vine.improvement) == (0.5, None, None)
    # Over 120 s: (3/8 + 1/2 + 1/2)/3, and 80 s of 3/8 and 40 s of 1/2.
    assert vine.mean.low == pytest.approx((80 * 0.375 + 40 * 0.5) / 120)
    assert vine.mean.high == pytest.approx(1.375 / 3)
    assert ppo.mean.value == pytest.approx((0.375 + 0.5 + 0.5625) / 3)
    assert (ppo.pass_at_1.value, ppo.difference.value, ppo.improvement.value) == (0.625, 0.125, 1)
    by_iteration = results[1]
    assert (by_iteration.difference.value, by_iteration.improvement.value) == (0, 0.5)


def test_the_cost_of_a_target_that_all_reach(uneven):
    times = {(one.method, one.cost): one for one in times_to_target(uneven, 0.5)}
    vine, ppo = times["vine", "elapsed_s"], times["ppo", "elapsed_s"]
    assert (vine.num_reached, vine.median, vine.horizon) == (2, 40, 80)
    assert vars(vine.restricted_mean) == {"value": 60, "low": 40, "high": 80}
    assert (ppo.median, vars(ppo.restricted_mean)) == (
        40,
        {"value": 40, "low": None, "high": None},
    )
    assert times["vine", "iteration"].median == 4
    assert times["vine", "tokens_sampled"].median == 192_000


def test_the_cost_of_a_target_that_some_never_reach_is_censored(uneven):
    times = {(one.method, one.cost): one for one in times_to_target(uneven, 0.7)}
    vine, ppo = times["vine", "elapsed_s"], times["ppo", "elapsed_s"]
    # vine at 120 s or later and at 240 s; ppo at 120 s or later: known of all are 120 s.
    assert (vine.num_reached, vine.num_seeds, ppo.num_reached) == (1, 2, 0)
    assert (vine.median, ppo.median, vine.horizon, ppo.horizon) == (240, None, 120, 120)
    assert vine.survival == kaplan_meier([120, 240], [False, True])
    assert vine.restricted_mean.value == ppo.restricted_mean.value == 120
    # By iteration the one that reaches does so when the other is last seen.
    assert (times["vine", "iteration"].median, times["vine", "iteration"].horizon) == (12, 12)


def test_up_to_the_common_horizon_the_restricted_mean_is_a_plain_mean(methods_paths):
    methods = read_methods(methods_paths)
    for target in (0.5, 0.6, 0.7):
        for one in times_to_target(methods, target):
            curves = next(method for method in methods if method.name == one.method).rows_by_seed
            costs = []
            for rows in curves.values():
                reached = [getattr(r, one.cost) for r in rows if r.pass_at_1 >= target]
                costs.append(min([*reached[:1], one.horizon]))
            assert one.restricted_mean.value == pytest.approx(np.mean(costs))


def test_the_default_target_is_what_every_method_reaches(uneven, methods_paths):
    assert default_target(uneven) == 0.62  # both 0.625
    assert default_target(read_methods(methods_paths[2:])) == 0.54  # ppo: (0.625 + 0.75 + 0.25)/3


def test_the_figure_of_times_is_one_minus_kaplan_meier(uneven):
    times = [one for one in times_to_target(uneven, 0.7) if one.cost == "elapsed_s"]
    with figures.panels(1, 1) as (_, axes):
        draw_times(axes[0], times, ELAPSED)
        vine, ppo = axes[0].get_lines()[:2]
        assert (list(vine.get_xdata()), list(vine.get_ydata())) == ([0, 240, 240], [0, 1, 1])
        assert (list(ppo.get_xdata()), list(ppo.get_ydata())) == ([0, 120], [0, 0])


def test_the_phases_of_a_run_by_hand(run_path):
    rewrite_metrics(run_path, lambda row: row | {"time/evaluate_s": row["iteration"] % 2 * 0.25})
    rows = phase_rows(read_run(run_path))
    assert [(row.phase, row.seconds) for row in rows] == [
        ("rollouts", 2),
        ("values", 5),
        ("grading", 0.5),
        ("update", 2),
        ("weight sync", 0.25),
        ("other", 0.125),  # 0.25 s of 10, where they were no evaluation
    ]
    assert [row.share for row in rows[:2]] == [2 / 9.875, 5 / 9.875]
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert {row.num_iterations for row in rows} == {12}


def test_the_phases_of_a_method_are_means_over_its_seeds(uneven, methods_paths, tmp_path):
    paths = [methods_paths[1], methods_paths[0], methods_paths[5]]
    rewrite_metrics(paths[0], lambda row: row | {"time/values_s": 0, "time/total_s": 5})
    vine, ppo = method_phases(read_phases(paths))
    assert (vine.method, vine.seconds["values"], vine.total_s) == ("vine", 2.5, 7.5)
    assert vine.shares["values"] == 2.5 / 7.5
    assert ppo.total_s == 10
    out = tmp_path / "out"
    write_tables(uneven, out, phases=read_phases(paths))
    assert read_phases([out]) == read_phases(paths)
    (out / "phases.csv").unlink()
    assert read_phases([out]) == []  # a table of before there were any


def test_a_run_without_times_has_no_phases(run_path):
    rewrite_metrics(run_path, lambda row: {"iteration": row["iteration"]})
    run = read_run(run_path)
    assert phase_rows(run) == []
    edges, shares = time_shares(run)
    assert (edges, shares["update"].tolist()) == ([0.5, 1.5], [0])
