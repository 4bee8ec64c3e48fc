"""Value accuracy: numbers by hand, known errors recovered, seeds pooled, tables that redraw."""

import csv
import json
import shutil

import numpy as np
import pytest
from support.accuracy_runs import (
    write_tiny,
)

from analysis.__main__ import main

PREDICTORS = "critic,mc_train_1,mc_train_2,mc_1,mc_2,group_mean,group_mean_others,constant"
STEM = "value_accuracy"
TABLES = [f"{STEM}{suffix}.csv" for suffix in ("", "_differences", "_strata", "_reliability")]
FIGURES = [STEM, f"{STEM}_scatter_vine", f"{STEM}_reliability_vine", f"{STEM}_strata"]
FILES = [f"{STEM}_states.parquet", *TABLES]
FILES += [f"{figure}.{suffix}" for figure in FIGURES for suffix in ("png", "svg")]
FILES.append("summary.json")


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The tiny run, and the directory where its analysis was written."""
    folder = tmp_path_factory.mktemp("drawn")
    run_path = write_tiny(folder / "run")
    options = ["--continuations", "1,2", "--num-resamples", "50", "--num-refits", "5"]
    assert main(["value-accuracy", str(run_path), "--out", str(folder / "out"), *options]) == 0
    return run_path, folder / "out", options


def rows_of(drawn, table):
    with (drawn[1] / table).open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def by_hand(drawn):
    """The main table by group and predictor, numbers where there are some."""
    rows = rows_of(drawn, TABLES[0])
    return {(row["group"], row["predictor"]): row for row in rows}


def numbers(row, *names):
    return [float(row[name]) for name in names]


def test_errors_and_correlations_of_the_critic_by_hand(by_hand):
    # Values 0.5, 0.5, 0.75, 0.25 of truths 1/4, 2/4, 4/4, 0/4: errors 1/4, 0, −1/4, 1/4.
    row = by_hand["boundary", "critic"]
    assert (row["num_states"], row["num_problems"], row["num_left_out"]) == ("4", "2", "0")
    assert numbers(row, "bias", "mae", "mse", "accuracy") == [1 / 16, 3 / 16, 3 / 64, 1 / 4]
    noise = (3 / 16 / 3 + 1 / 4 / 3) / 4  # t(1 − t)/(m − 1), mean
    assert numbers(row, "mse_corrected") == pytest.approx([3 / 64 - noise])
    # Var(t) is 35/192, so that the reliability is 1 − (7/192)/(35/192).
    r = 0.25 / np.sqrt(0.125 * 0.546875)
    assert numbers(row, "pearson", "pearson_reliability") == pytest.approx([r, 0.8])
    assert numbers(row, "pearson_ceiling", "pearson_disattenuated") == pytest.approx(
        [np.sqrt(0.8), r / np.sqrt(0.8)]
    )
    assert numbers(row, "explained_variance") == pytest.approx([1 - 0.171875 / 0.546875])
    # Deviations within problems: (0, 0 | ¼, −¼) of (−⅛, ⅛ | ½, −½).
    assert numbers(row, "pearson_within") == pytest.approx([0.25 / np.sqrt(0.125 * 0.53125)])
    # Ranks (2.5, 2.5, 4, 1) of (2, 3, 4, 1); within problems (1.5, 1.5 | 2, 1) of (1, 2 | 2, 1).
    assert numbers(row, "spearman", "spearman_within") == pytest.approx(
        [4.5 / np.sqrt(4.5 * 5), 0.5 / np.sqrt(0.5 * 1)]
    )
    # Σ p(1 − p) is 3/12 + 4/12, the corrected squared errors add up to 1/24.
    assert numbers(row, "equivalent_draws") == pytest.approx([14.0])
    assert numbers(row, "brier", "brier_uncertainty") == pytest.approx(
        [(0.25 + 0.25 + 0.0625 + 0.0625) / 4, 7 / 16 * 9 / 16]
    )
    parts = "brier_miscalibration", "brier_discrimination", "brier_uncertainty"
    miscalibration, discrimination, uncertainty = numbers(row, *parts)
    assert miscalibration - discrimination + uncertainty == pytest.approx(float(row["brier"]))
    assert float(row["log_margin"]) == 1 / (2 * 4 + 2)  # of a critic: that of the truth's returns
    assert (row["num_draws"], row["mse_sampling"]) == ("", "")


def test_what_the_other_predictors_say(by_hand, drawn):
    biases = {
        # Truths 1/4, 2/4, 1, 0 have the mean 7/16; rewards are (1, 0) and (1, 1).
        "mc_train_1": (1 + 0 + 1 + 0) / 4,
        "mc_train_2": (0.5 + 0 + 1 + 0.5) / 4,
        "mc_1": (0 + 1 + 1 + 0) / 4,
        "mc_2": (0.5 + 1 + 1 + 0) / 4,
        "group_mean": (0.5 + 0.5 + 1 + 1) / 4,
        "group_mean_others": (0 + 1 + 1 + 1) / 4,
        "constant": 0.75,
    }
    found = {name: float(by_hand["boundary", name]["bias"]) + 7 / 16 for name in biases}
    assert found == pytest.approx(biases)
    maes = {
        "group_mean": (0.25 + 0 + 0 + 1) / 4,
        "group_mean_others": (0.25 + 0.5 + 0 + 1) / 4,
        "constant": (0.5 + 0.25 + 0.25 + 0.75) / 4,
    }
    assert {name: float(by_hand["boundary", name]["mae"]) for name in maes} == pytest.approx(maes)
    rows = rows_of(drawn, TABLES[0])
    boundary = [row["predictor"] for row in rows if row["group"] == "boundary"]
    assert boundary == PREDICTORS.split(",")
    # Of one draw nothing shows its own variance; of two draws k = (1, 2, 2, 0): mean v(1 − v).
    assert by_hand["boundary", "mc_1"]["mse_sampling"] == ""
    assert float(by_hand["boundary", "mc_2"]["mse_sampling"]) == pytest.approx(0.25 / 4)
    assert float(by_hand["boundary", "mc_2"]["log_margin"]) == 1 / 6
    assert by_hand["boundary", "constant"]["pearson"] == ""


def test_the_floor_is_that_of_a_perfect_estimator_of_as_many_draws(by_hand):
    # E|X − Y/4| of X ~ B(1, p), Y ~ B(4, p) is 2p(1 − p): X is 1 and the gap 1 − p, or the reverse.
    floors = [2 * p * (1 - p) for p in (0.25, 0.5, 1, 0)]
    row = by_hand["boundary", "mc_1"]
    assert float(row["mae_floor"]) == pytest.approx(sum(floors) / 4)
    mae = (0.25 + 0.5 + 0 + 0) / 4
    assert float(row["mae_above_floor"]) == pytest.approx(mae - sum(floors) / 4)
    assert float(row["mse_corrected_floor"]) == pytest.approx((1 / 4 + 1 / 3) / 4)
    assert float(row["brier"]) == (0.25 + 0.5 + 0 + 0) / 4  # 0 and 1 are left as they are
    floor = by_hand["boundary", "mc_2"]["mse_corrected_floor"]
    assert float(floor) == pytest.approx((1 / 4 + 1 / 3) / 4 / 2)


def test_query_states_are_kept_apart(by_hand, drawn):
    row = by_hand["query", "critic"]
    # 0.4 and 0.8 of 2/4 and 3/4; no state of a step boundary among them.
    assert row["num_states"] == "2"
    assert float(row["bias"]) == pytest.approx((-0.1 + 0.05) / 2)
    assert row["pearson_within"] == ""
    for table in TABLES[2:]:
        assert {row["predictor"] for row in rows_of(drawn, table)} == set(PREDICTORS.split(","))
    strata = [row for row in rows_of(drawn, TABLES[2]) if row["predictor"] == "critic"]
    assert {row["axis"]: 0 for row in strata} == {"position": 0, "outcome": 0, "value": 0}
    assert sum(int(row["num_states"]) for row in strata) == 3 * 4


def test_strata_and_differences_by_hand(drawn):
    strata = {
        (row["axis"], row["stratum"]): row
        for row in rows_of(drawn, TABLES[2])
        if row["predictor"] == "critic"
    }
    expected = {
        ("position", "[0.4, 0.6)"): 1 / 16,
        ("outcome", "incorrect"): 0.0,
        ("outcome", "correct"): (0.25 - 0.25 + 0.25) / 3,
        ("value", "0"): 0.25,
        ("value", "(0, 0.25]"): 0.25,
        ("value", "(0.25, 0.5]"): 0.0,
        ("value", "1"): -0.25,
    }
    assert {key: float(row["bias"]) for key, row in strata.items()} == pytest.approx(expected)
    differences = {
        row["predictor"]: row for row in rows_of(drawn, TABLES[1]) if row["group"] == "boundary"
    }
    assert {row["baseline"] for row in differences.values()} == {"mc_2"}
    assert set(differences) == set(PREDICTORS.split(",")) - {"mc_2"}
    # mc_2 errs by 1/4, 1/2, 0, 0; the critic by 1/4, 0, 1/4, 1/4.
    assert numbers(differences["critic"], "mae_difference", "mse_difference") == pytest.approx(
        [3 / 16 - 3 / 16, 3 / 64 - 5 / 64]
    )


def test_the_states_table_alone_gives_the_same_files(drawn, tmp_path, capsys):
    _, out, options = drawn
    alone, again = tmp_path / "alone", tmp_path / "again"
    alone.mkdir()
    shutil.copy(out / FILES[0], alone)
    capsys.readouterr()
    assert main(["value-accuracy", str(alone), "--out", str(again), *options]) == 0
    assert capsys.readouterr().out.split() == [str(again / name) for name in FILES]
    for name in FILES:
        assert (again / name).read_bytes() == (out / name).read_bytes(), name
    summary = json.loads((out / "summary.json").read_bytes())["value-accuracy"]
    critic = summary["methods"]["vine"]["0"]["critic"]
    assert (critic["seed"], critic["num_states"], critic["is_own_policy"]) == ("1", 4, True)
    assert critic["mae"]["value"] == 3 / 16
