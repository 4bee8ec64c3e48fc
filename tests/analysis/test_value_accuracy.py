"""Value accuracy: numbers by hand, known errors recovered, seeds pooled, tables that redraw."""

import shutil

import numpy as np
import pytest
from support.accuracy_runs import metric_of, write_tiny

from analysis import value_accuracy
from analysis.__main__ import main
from analysis.value_accuracy import SCORES
from vineppo.run_dir import RunDir

PREDICTORS = "critic,mc_train_1,mc_train_2,mc_1,mc_2,group_mean,group_mean_others,constant"
STEM = "value_accuracy"
FILES = [f"{STEM}_states.parquet", SCORES.name, f"{STEM}.png", f"{STEM}_scatter_vine.png"]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The tiny run, and the directory where its analysis was written."""
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_accuracy, "NUM_RESAMPLES", 50)
        yield from draw(folder)


def draw(folder):
    run_path = write_tiny(folder / "run")
    options = ["--continuations", "1,2"]
    assert main(["value-accuracy", str(run_path), "--out", str(folder / "out"), *options]) == 0
    yield run_path, folder / "out", options


@pytest.fixture(scope="module")
def table(drawn):
    return SCORES.read(drawn[1])


@pytest.fixture(scope="module")
def by_hand(table):
    """The metrics by stratum and predictor."""
    return {
        key: of.set_index("metric")["value"] for key, of in table.groupby(["stratum", "predictor"])
    }


def numbers(row, *names):
    return [row[name] for name in names]


def test_errors_and_correlations_of_the_critic_by_hand(by_hand, table):
    # Values 0.5, 0.5, 0.75, 0.25 of truths 1/4, 2/4, 4/4, 0/4: errors 1/4, 0, −1/4, 1/4.
    row = by_hand["boundaries", "critic"]
    assert numbers(row, "bias", "mae", "accuracy") == [1 / 16, 3 / 16, 1 / 4]
    noise = (3 / 16 / 3 + 1 / 4 / 3) / 4  # t(1 − t)/(m − 1), mean
    assert numbers(row, "mse_corrected") == pytest.approx([3 / 64 - noise])
    assert numbers(row, "pearson") == pytest.approx([0.25 / np.sqrt(0.125 * 0.546875)])
    assert numbers(row, "explained_variance") == pytest.approx([1 - 0.171875 / 0.546875])
    # Deviations within problems: (0, 0 | ¼, −¼) of (−⅛, ⅛ | ½, −½).
    assert numbers(row, "pearson_within") == pytest.approx([0.25 / np.sqrt(0.125 * 0.53125)])
    # Σ p(1 − p) is 3/12 + 4/12, the corrected squared errors add up to 1/24.
    assert numbers(row, "equivalent_draws") == pytest.approx([14.0])
    counted = table[table["stratum"] == "boundaries"][["seeds", "num_states", "num_problems"]]
    assert counted.drop_duplicates().values.tolist() == [["1", 4, 2]]


def test_what_the_other_predictors_say(by_hand, table):
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
    found = {name: float(by_hand["boundaries", name]["bias"]) + 7 / 16 for name in biases}
    assert found == pytest.approx(biases)
    maes = {
        "group_mean": (0.25 + 0 + 0 + 1) / 4,
        "group_mean_others": (0.25 + 0.5 + 0 + 1) / 4,
        "constant": (0.5 + 0.25 + 0.25 + 0.75) / 4,
    }
    assert {name: float(by_hand["boundaries", name]["mae"]) for name in maes} == pytest.approx(maes)
    assert list(table["predictor"].unique()) == PREDICTORS.split(",")
    assert "pearson" not in by_hand["boundaries", "constant"]


def test_query_states_are_kept_apart(by_hand, table):
    row = by_hand["query", "critic"]
    # 0.4 and 0.8 of 2/4 and 3/4; no state of a step boundary among them.
    assert float(row["bias"]) == pytest.approx((-0.1 + 0.05) / 2)
    assert "pearson_within" not in row
    assert set(table[table["stratum"] == "query"]["num_states"]) == {2}
    bias = table[(table["metric"] == "bias") & (table["predictor"] == "critic")]
    by_kind = bias.groupby(bias["stratum"].str.split().str[0])["num_states"].sum()
    assert dict(by_kind) == {"boundaries": 4, "outcome": 4, "position": 4, "query": 2, "value": 4}


def test_strata_by_hand(by_hand):
    expected = {
        "position [0.4, 0.6)": 1 / 16,
        "outcome incorrect": 0.0,
        "outcome correct": (0.25 - 0.25 + 0.25) / 3,
        "value 0": 0.25,
        "value (0, 0.25]": 0.25,
        "value (0.25, 0.5]": 0.0,
        "value 1": -0.25,
        "boundaries": 1 / 16,
    }
    found = {
        stratum: row["bias"]
        for (stratum, predictor), row in by_hand.items()
        if predictor == "critic" and stratum != "query"
    }
    assert found == pytest.approx(expected)


def test_further_predictors_of_a_run_are_measured_as_the_critic_is(tmp_path):
    path = write_tiny(tmp_path / "run")
    run_dir = RunDir(path)
    rows = [row | {"predictor": None, "value": None} for row in run_dir.read_values(1)]
    further = [
        row | {"predictor": name, "value": row["critic_value"], "critic_value": None}
        | {"returns_K": returns}
        for row in rows
        for name, returns in (("tuned", []), ("group_mean", []), ("vine", [1.0, 0.0]))
    ]  # fmt: skip
    run_dir.write_values(1, [*rows, *further])
    options = ["--continuations=1,2"]
    assert main(["value-accuracy", str(path), f"--out={tmp_path / 'out'}", *options]) == 0
    scores = SCORES.read(tmp_path / "out")
    names = ["critic", "tuned", "values/group_mean", "vine", *PREDICTORS.split(",")[1:]]
    assert list(scores["predictor"].unique()) == names
    critic, tuned, vine = (
        metric_of(scores, predictor=name, stratum="boundaries")
        for name in ("critic", "tuned", "vine")
    )
    assert tuned.equals(critic)
    assert vine.equals(critic)


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
