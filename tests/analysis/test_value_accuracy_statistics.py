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
    metric_of,
    simulate,
    states_of,
    write_simulated,
    write_tiny,
)

from analysis.stats.value_scores import Settings, scores
from analysis.value_accuracy import make_cells, reliability, score_states
from analysis.value_states import baseline_of


def test_known_errors_are_recovered_within_the_intervals(tmp_path):
    facts, values_N = simulate(seed=0)
    path = write_simulated(tmp_path / "run", facts)
    cells = cells_of(path, continuations=(1, NUM_DRAWS))
    settings = Settings(level=0.999, num_refits=2)
    critic = scores(cells["1", "critic"], settings)
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
    fresh = scores(cells["1", f"mc_{NUM_DRAWS}"], settings)
    stale = scores(cells["1", f"mc_train_{NUM_DRAWS}"], settings)
    assert fresh["equivalent_draws"].low < NUM_DRAWS < fresh["equivalent_draws"].high < 15
    assert fresh["mae_above_floor"].low < 0 < fresh["mae_above_floor"].high < 0.03
    assert fresh["mse_systematic"].low < 0 < fresh["mse_systematic"].high < 0.01
    assert stale["mse_systematic"].low < SHIFT**2 < stale["mse_systematic"].high < 0.04
    assert stale["mae_above_floor"].low > 0
    assert fresh["pearson"].low < fresh["pearson_ceiling"].value < fresh["pearson"].high
    table = score_states(states_of(path, continuations=(NUM_DRAWS,)), settings)
    table = table[(table["metric"] == "mse_minus_mc_9") & (table["predictor"] == "critic")]
    [difference] = table[table["stratum"] == "boundaries"].to_dict("records")
    # mean p(1 − p)/9 is 0.024: the critic's squared error is lower by 0.008.
    gain = BIAS**2 + NOISE**2 - np.mean(values_N * (1 - values_N)) / NUM_DRAWS
    assert difference["value_low"] < gain < difference["value_high"] < 0


def test_exact_values_lie_in_the_consistency_band_and_shifted_ones_below(tmp_path):
    facts, values_N = simulate(seed=1)
    settings = Settings(level=0.99, num_resamples=2, num_refits=100)
    inside, below = {}, {}
    for shift in (0.0, 0.1):
        critic = [replace(f, critic=float(p + shift)) for f, p in zip(facts, values_N, strict=True)]
        path = write_simulated(tmp_path / "run", critic)
        rows = reliability(states_of(path, predictors=("critic", "mc_9")), settings)
        of = dict(list(rows.groupby(["predictor", "kind"])))
        curve = of["critic", "curve"].reset_index(drop=True)
        exact = of["critic", "exact"].reset_index(drop=True)
        middle = curve["prediction"].between(0.3, 0.8)
        curve, exact = curve[middle], exact[middle]
        assert curve["truth"].between(curve["truth_low"], curve["truth_high"]).all()
        inside[shift] = curve["truth"].between(exact["truth_low"], exact["truth_high"]).mean()
        below[shift] = (curve["truth_high"] < curve["prediction"]).mean()
        assert of["critic", "bin"]["num_states"].sum() == len(facts)
        assert list(of["mc_9", "curve"]["prediction"]) == [k / 9 for k in range(10)]
    assert inside[0.0] > 0.9
    assert inside[0.1] < 0.1
    assert below[0.0] < 0.1
    assert below[0.1] > 0.9


def test_the_same_problems_in_several_seeds_are_one_cluster(tmp_path):
    facts, _ = simulate(seed=2)
    once = write_simulated(tmp_path / "one", facts)
    again = write_simulated(tmp_path / "two", facts, seed=2)
    cells = cells_of(once, again, predictors=("critic", "mc_9"))
    assert {seeds for seeds, _ in cells} == {"1", "2", "1 2"}
    single, pooled = (cells[seeds, "critic"] for seeds in ("1", "1 2"))
    assert (len(pooled.states), pooled.is_whole) == (2 * len(facts), True)
    assert not single.is_whole
    # A copy tells nothing new: as if its states were others' the intervals would be narrower.
    one, both = scores(single, QUICK), scores(pooled, QUICK)
    for name in ("bias", "mae", "mse", "pearson_within", "spearman_within", "spearman", "brier"):
        for bound in ("value", "low", "high"):
            expected = getattr(one[name], bound)
            assert getattr(both[name], bound) == pytest.approx(expected, rel=1e-9), name
    table = score_states(states_of(once, again, predictors=("critic", "mc_9")), QUICK)
    assert list(table[table["metric"] == "mae_minus_mc_9"]["seeds"]) == ["1", "2", "1 2"]


def test_a_seed_from_before_a_key_was_added_is_one_of_the_method(tmp_path):
    task = CONFIG["task"] | {"response_template": "{solution}"}
    paths = (
        write_tiny(tmp_path / "old", task=task),
        write_tiny(tmp_path / "new", task=task | {"too_long": "refuse"}, seed=2),
    )
    assert ("1 2", "critic") in cells_of(*paths, predictors=("critic",))


def test_within_problems_of_several_seeds_each_policy_has_its_own_mean(tmp_path):
    higher = [
        changed(TINY, i, critic=TINY[i].critic + 0.25)[i] if TINY[i].step else TINY[i]
        for i in range(len(TINY))
    ]
    paths = write_tiny(tmp_path / "one"), write_tiny(tmp_path / "two", facts=higher, seed=2)
    cells = cells_of(*paths, predictors=("critic",))
    one, both = (scores(cells[seeds, "critic"], QUICK) for seeds in ("1", "1 2"))
    assert both["pearson_within"].value == pytest.approx(one["pearson_within"].value)
    assert both["pearson"].value < one["pearson"].value - 0.01
    assert both["bias"].value == pytest.approx(one["bias"].value + 0.125)


def test_a_state_without_a_prediction_is_left_out(tmp_path):
    path = write_tiny(tmp_path / "run", facts=changed(TINY, 2, critic=float("nan")))
    table = score_states(states_of(path, continuations=(2,)), QUICK)
    at = table[(table["predictor"] == "critic") & (table["stratum"] == "boundaries")]
    assert set(at["num_states"]) == {3}
    critic = metric_of(at)
    assert critic["bias"] == 0.0
    # On the states of both: the critic errs by 0, 1/4, 1/4, mc_2 by 1/2, 0, 0.
    assert critic["mae_minus_mc_2"] == pytest.approx(0.0)
    assert critic["mse_minus_mc_2"] == pytest.approx((1 / 8 - 1 / 4) / 3)
    constant = table[(table["predictor"] == "constant") & (table["stratum"] == "boundaries")]
    assert set(constant["num_states"]) == {4}


def test_the_last_policy_is_not_the_one_that_trained(tmp_path):
    path = write_tiny(tmp_path / "run")
    write_tiny(path, checkpoint=1, iteration=1)
    cells = make_cells(states_of(path, predictors=("critic",)))
    found = [(cell.about["checkpoint"], cell.about["is_own_policy"]) for cell in cells]
    assert found == [(0, 1), (1, 0)]


def test_runs_have_the_predictors_that_they_have(tmp_path):
    group = [changed(TINY, i, critic=None, returns=())[i] for i in range(len(TINY))]
    credit = {"kind": "grpo"}
    path = write_tiny(tmp_path / "grpo", facts=group, name="grpo", credit=credit)
    shutil.rmtree(path / "values")
    names = {predictor for _, predictor in cells_of(path)}
    assert names == {"mc_1", "group_mean", "group_mean_others", "constant"}
    # The K of the training is predicted with where nobody asks for it.
    vine = {predictor for _, predictor in cells_of(write_tiny(tmp_path / "vine"))}
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
    path = write_simulated(tmp_path / "run", facts)
    table = score_states(states_of(path, predictors=("critic",)), QUICK)
    sizes = table[table["metric"] == "bias"].set_index("stratum")["num_states"]
    # The positions 1/5 … 4/5 are the beginnings of the fifths from the second on.
    for kind, count in (("position", 4), ("outcome", 2), ("value", 6)):
        of_kind = sizes[sizes.index.str.startswith(kind)]
        assert (len(of_kind), of_kind.sum()) == (count, len(facts))
    assert (
        sizes[[f"position [{k / 5:g}, {(k + 1) / 5:g})" for k in (1, 2, 3, 4)]].tolist()
        == [len(facts) // 4] * 4
    )


def test_the_log_score_keeps_predictions_from_0_and_1_by_their_number_of_returns(tmp_path):
    cells = cells_of(write_tiny(tmp_path / "run"), continuations=(2,))
    # Of a critic by that of the truth's returns.
    margins = {name: cells["1", name].log_margin for name in ("critic", "mc_2", "group_mean")}
    assert margins == {"critic": 1 / 10, "mc_2": 1 / 6, "group_mean": 1 / 6}
