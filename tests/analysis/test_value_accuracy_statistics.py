"""Value accuracy: known errors are recovered, bands cover, seeds are pooled by problem."""

import numpy as np
import pytest
from support.accuracy_runs import (
    BIAS,
    NOISE,
    NUM_DRAWS,
    QUICK,
    TINY,
    cells_of,
    changed,
    metric_of,
    simulate,
    states_of,
    write_simulated,
    write_tiny,
)

from analysis.stats.value_scores import scores
from analysis.value_accuracy import score_states


def test_known_errors_are_recovered_within_the_intervals(tmp_path):
    facts, values_N = simulate(seed=0)
    path = write_simulated(tmp_path / "run", facts)
    cells = cells_of(path, continuations=(1, NUM_DRAWS))
    critic = scores(cells["1", "critic"])
    errors_N = np.array([fact.critic for fact in facts]) - values_N
    correlation = np.corrcoef(values_N, values_N + errors_N)[0, 1]
    truths = {
        "bias": (BIAS, 0.04),
        "mse_corrected": (BIAS**2 + NOISE**2, 0.01),
        "explained_variance_corrected": (1 - NOISE**2 / np.var(values_N), 0.3),
    }
    for name, (truth, width) in truths.items():
        estimate = critic[name]
        assert estimate.low < truth < estimate.high, name
        assert estimate.high - estimate.low < width, name
    # What the noise of 16 returns does where it is not corrected for is no small matter.
    assert critic["pearson"].high < correlation
    assert critic["explained_variance"].high < truths["explained_variance_corrected"][0]
    fresh = scores(cells["1", f"mc_{NUM_DRAWS}"])
    stale = scores(cells["1", f"mc_train_{NUM_DRAWS}"])
    assert fresh["equivalent_draws"].low < NUM_DRAWS < fresh["equivalent_draws"].high < 15
    assert fresh["mae"].low < fresh["mae_floor"].value < fresh["mae"].high
    assert stale["mae"].low > stale["mae_floor"].value


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
    one, both = scores(single, **QUICK), scores(pooled, **QUICK)
    for name in ("bias", "mae", "mse_corrected", "pearson", "pearson_within"):
        for bound in ("value", "low", "high"):
            expected = getattr(one[name], bound)
            assert getattr(both[name], bound) == pytest.approx(expected, rel=1e-9), name


def test_within_problems_of_several_seeds_each_policy_has_its_own_mean(tmp_path):
    higher = [
        changed(TINY, i, critic=TINY[i].critic + 0.25)[i] if TINY[i].step else TINY[i]
        for i in range(len(TINY))
    ]
    paths = write_tiny(tmp_path / "one"), write_tiny(tmp_path / "two", facts=higher, seed=2)
    cells = cells_of(*paths, predictors=("critic",))
    one, both = (scores(cells[seeds, "critic"], **QUICK) for seeds in ("1", "1 2"))
    assert both["pearson_within"].value == pytest.approx(one["pearson_within"].value)
    assert both["pearson"].value < one["pearson"].value - 0.01
    assert both["bias"].value == pytest.approx(one["bias"].value + 0.125)


def test_a_state_without_a_prediction_is_left_out(tmp_path):
    path = write_tiny(tmp_path / "run", facts=changed(TINY, 2, critic=float("nan")))
    table = score_states(states_of(path, continuations=(2,)), **QUICK)
    at = table[(table["predictor"] == "critic") & (table["stratum"] == "boundaries")]
    assert set(at["num_states"]) == {3}
    assert metric_of(at)["bias"] == 0.0
    constant = table[(table["predictor"] == "constant") & (table["stratum"] == "boundaries")]
    assert set(constant["num_states"]) == {4}
