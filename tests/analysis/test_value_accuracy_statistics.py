"""Value accuracy: known errors are recovered, bands cover, seeds are pooled by problem."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.accuracy_runs import (
    BIAS,
    CONFIG,
    NOISE,
    NUM_DRAWS,
    QUICK,
    SHIFT,
    TINY,
    cells_of,
    changed,
    simulate,
    write_simulated,
    write_tiny,
)

from analysis.value_accuracy.cells import make_cells
from analysis.value_accuracy.comparison import difference_rows
from analysis.value_accuracy.predictions import Wanted
from analysis.value_accuracy.predictors import baseline_of
from analysis.value_accuracy.reliability import reliability_rows
from analysis.value_accuracy.scores import scores
from analysis.value_accuracy.settings import Settings
from analysis.value_accuracy.sources import collect
from analysis.value_accuracy.strata import stratum_rows


def test_known_errors_are_recovered_within_the_intervals(tmp_path):
    facts, values_N = simulate(seed=0)
    cells = cells_of(write_simulated(tmp_path / "run", facts), continuations=(1, NUM_DRAWS))
    settings = Settings(0.1, level=0.999, num_resamples=2000, num_refits=2, seed=0)
    critic = scores(cells["1", "boundary", "critic"], settings)
    errors_N = np.array([fact.critic for fact in facts]) - values_N
    correlation = np.corrcoef(values_N, values_N + errors_N)[0, 1]
    truths = {
        "bias": (BIAS, 0.04),
        "mse_corrected": (BIAS**2 + NOISE**2, 0.01),
        "pearson_disattenuated": (correlation, 0.15),
        "explained_variance_corrected": (1 - NOISE**2 / np.var(values_N), 0.3),
    }
    for name, (truth, width) in truths.items():
        estimate = critic[name]
        assert estimate.low < truth < estimate.high, name
        assert estimate.high - estimate.low < width, name
    # What the noise of 16 returns does where it is not corrected for is no small matter.
    assert critic["mse"].low > truths["mse_corrected"][0]
    assert critic["pearson"].high < correlation
    assert critic["explained_variance"].high < truths["explained_variance_corrected"][0]
    fresh = scores(cells["1", "boundary", f"mc_{NUM_DRAWS}"], settings)
    stale = scores(cells["1", "boundary", f"mc_train_{NUM_DRAWS}"], settings)
    assert fresh["equivalent_draws"].low < NUM_DRAWS < fresh["equivalent_draws"].high < 15
    assert fresh["mae_above_floor"].low < 0 < fresh["mae_above_floor"].high < 0.03
    assert fresh["mse_systematic"].low < 0 < fresh["mse_systematic"].high < 0.01
    assert stale["mse_systematic"].low < SHIFT**2 < stale["mse_systematic"].high < 0.04
    assert stale["mae_above_floor"].low > 0
    assert fresh["pearson"].low < fresh["pearson_ceiling"].value < fresh["pearson"].high
    [difference] = (
        row
        for row in difference_rows(list(cells.values()), settings)
        if row["predictor"] == "critic"
    )
    # mean p(1 − p)/9 is 0.024: the critic's squared error is lower by 0.008.
    gain = BIAS**2 + NOISE**2 - np.mean(values_N * (1 - values_N)) / NUM_DRAWS
    assert difference["mse_difference_low"] < gain < difference["mse_difference_high"] < 0


def test_exact_values_lie_in_the_consistency_band_and_shifted_ones_below(tmp_path):
    facts, values_N = simulate(seed=1)
    settings = Settings(0.1, level=0.99, num_resamples=2, num_refits=100, seed=0)
    inside, below = {}, {}
    for shift in (0.0, 0.1):
        critic = [replace(f, critic=float(p + shift)) for f, p in zip(facts, values_N, strict=True)]
        cells = cells_of(write_simulated(tmp_path / "run", critic), predictors=("critic", "mc_9"))
        rows = reliability_rows(list(cells.values()), settings)
        of_critic = [row for row in rows if row["predictor"] == "critic"]
        curve = [r for r in of_critic if r["kind"] == "curve" and 0.3 < r["prediction"] < 0.8]
        assert all(row["confidence_low"] <= row["truth"] <= row["confidence_high"] for row in curve)
        inside[shift] = np.mean(
            [row["consistency_low"] <= row["truth"] <= row["consistency_high"] for row in curve]
        )
        below[shift] = np.mean([row["confidence_high"] < row["prediction"] for row in curve])
        bins = [row for row in of_critic if row["kind"] == "bin"]
        assert sum(row["num_states"] for row in bins) == len(facts)
        points = [r for r in rows if (r["predictor"], r["kind"]) == ("mc_9", "curve")]
        assert [row["prediction"] for row in points] == [k / 9 for k in range(10)]
    assert inside[0.0] > 0.9
    assert inside[0.1] < 0.1
    assert below[0.0] < 0.1
    assert below[0.1] > 0.9


def test_the_same_problems_in_several_seeds_are_one_cluster(tmp_path):
    facts, _ = simulate(seed=2)
    once = write_simulated(tmp_path / "one", facts)
    again = write_simulated(tmp_path / "two", facts, seed=2)
    cells = cells_of(once, again, predictors=("critic", "mc_9"))
    single, pooled = (cells[seed, "boundary", "critic"] for seed in ("1", "all"))
    assert (pooled.num_seeds, len(pooled.values_N)) == (2, 2 * len(facts))
    assert (pooled.run_dir, single.run_dir) == (None, str(once))
    # A copy tells nothing new: as if its states were others' the intervals would be narrower.
    one, both = scores(single, QUICK), scores(pooled, QUICK)
    for name in ("bias", "mae", "mse", "pearson_within", "spearman_within", "spearman", "brier"):
        for bound in ("value", "low", "high"):
            expected = getattr(one[name], bound)
            assert getattr(both[name], bound) == pytest.approx(expected, rel=1e-9), name
    rows = difference_rows(list(cells.values()), QUICK)
    assert [(row["seed"], row["num_seeds"]) for row in rows] == [("1", 1), ("2", 1), ("all", 2)]


def test_a_seed_from_before_a_key_was_added_is_one_of_the_method(tmp_path):
    task = CONFIG["task"] | {"response_template": "{solution}"}
    paths = (
        write_tiny(tmp_path / "old", task=task),
        write_tiny(tmp_path / "new", task=task | {"too_long": "refuse"}, seed=2),
    )
    assert cells_of(*paths, predictors=("critic",))["all", "boundary", "critic"].num_seeds == 2


def test_within_problems_of_several_seeds_each_policy_has_its_own_mean(tmp_path):
    higher = [
        changed(TINY, i, critic=TINY[i].critic + 0.25)[i] if TINY[i].step else TINY[i]
        for i in range(len(TINY))
    ]
    paths = write_tiny(tmp_path / "one"), write_tiny(tmp_path / "two", facts=higher, seed=2)
    cells = cells_of(*paths, predictors=("critic",))
    one, both = (scores(cells[s, "boundary", "critic"], QUICK) for s in ("1", "all"))
    assert both["pearson_within"].value == pytest.approx(one["pearson_within"].value)
    assert both["pearson"].value < one["pearson"].value - 0.01
    assert both["bias"].value == pytest.approx(one["bias"].value + 0.125)


def test_a_state_without_a_prediction_is_left_out_and_counted(tmp_path):
    path = write_tiny(tmp_path / "run", facts=changed(TINY, 2, critic=float("nan")))
    cells = cells_of(path, continuations=(2,))
    critic = cells["1", "boundary", "critic"]
    assert (len(critic.values_N), critic.num_left_out) == (3, 1)
    assert scores(critic, QUICK)["bias"].value == 0.0
    [row] = (
        row
        for row in difference_rows(list(cells.values()), QUICK)
        if (row["predictor"], row["group"]) == ("critic", "boundary")
    )
    assert row["num_states"] == 3
    # On the states of both: the critic errs by 0, 1/4, 1/4, mc_2 by 1/2, 0, 0.
    assert row["mae_difference"] == pytest.approx(0.0)
    assert row["mse_difference"] == pytest.approx((1 / 8 - 1 / 4) / 3)
    baseline = cells["1", "boundary", "mc_2"].chosen(np.array([0, 3]))
    [row] = difference_rows([critic, baseline], QUICK)
    assert row["num_states"] == 1  # the second of the baseline; the critic lacks its first
    assert row["mae_difference"] == pytest.approx(0.25)


def test_the_last_policy_is_not_the_one_that_trained(tmp_path):
    path = write_tiny(tmp_path / "run")
    write_tiny(path, checkpoint=1, iteration=1)
    cells = make_cells(collect([path], path, None, Wanted(("critic",), (1,))))
    found = [(cell.checkpoint, cell.is_own_policy) for cell in cells if cell.group == "boundary"]
    assert found == [(0, True), (1, False)]


def test_runs_have_the_predictors_that_they_have(tmp_path):
    group = [changed(TINY, i, critic=None, returns=())[i] for i in range(len(TINY))]
    credit = {"kind": "grpo"}
    path = write_tiny(tmp_path / "grpo", facts=group, name="grpo", credit=credit)
    shutil.rmtree(path / "values")
    names = {predictor for _, _, predictor in cells_of(path)}
    assert names == {"mc_1", "group_mean", "group_mean_others", "constant"}
    # The K of the training is predicted with where nobody asks for it.
    vine = {predictor for _, _, predictor in cells_of(write_tiny(tmp_path / "vine"))}
    assert vine == {
        "critic", "mc_train_1", "mc_train_2", "mc_1", "mc_2", "group_mean",
        "group_mean_others", "constant",
    }  # fmt: skip


def test_the_baseline_is_the_k_of_the_training_or_the_largest():
    assert baseline_of(["mc_1", "mc_9", "mc_27", "mc_train_1", "mc_train_9"]) == "mc_9"
    assert baseline_of(["critic", "mc_1", "mc_9"]) == "mc_9"
    assert baseline_of(["mc_1", "mc_3", "mc_train_9"]) == "mc_3"
    assert baseline_of(["critic", "constant"]) is None


def test_strata_hold_every_state_once(tmp_path):
    facts, _ = simulate(seed=3)
    cells = cells_of(write_simulated(tmp_path / "run", facts), predictors=("critic",))
    rows = stratum_rows(list(cells.values()), QUICK)
    # The positions 1/5 … 4/5 are the beginnings of the fifths from the second on.
    places = {"position": [1, 2, 3, 4], "outcome": [0, 1], "value": [0, 1, 2, 3, 4, 5]}
    for axis, expected in places.items():
        of_axis = [row for row in rows if row["axis"] == axis]
        assert sum(row["num_states"] for row in of_axis) == len(facts)
        assert [row["stratum_index"] for row in of_axis] == expected
    sizes = [row["num_states"] for row in rows if row["axis"] == "position"]
    assert sizes == [len(facts) // 4] * 4
