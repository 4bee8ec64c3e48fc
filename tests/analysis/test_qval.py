"""QVal's form: what is written is of truth and predictors, and what others wrote is read."""

import json

import pytest
from support.accuracy_runs import Fact, write_run

from analysis import qval
from analysis.__main__ import main

FACTS = [
    Fact("p", 0, 0, 1.0, 5, (1, 0), (1, 0), 0.5),
    Fact("p", 0, 1, 1.0, 10, (1, 1), (1, 1), 0.9),
    Fact("q", 0, 1, 0.0, 0, (0, 0), (0, 1), 0.1),
]


def test_what_is_written_is_read_and_scored(tmp_path):
    run, out = write_run(tmp_path / "run", FACTS, 2, 10), tmp_path / "out"
    given = ["qval", str(run), "--out", str(out), "--continuations", "1,2"]
    assert main(given) == 0
    (truth,) = out.glob("GT_3pt_vineppo_vine-s1-i0/gt/sv_mc_mean_*.json")
    content = json.loads(truth.read_text())
    assert content.keys() == {"method_name", "method_type", "values", "config", "metadata"}
    assert (content["method_name"], content["method_type"]) == ("sv_mc_mean", "gt")
    assert content["values"] == [0.5, 1.0, 0.0]
    assert content["metadata"]["points"] == [["p", 0, 0], ["p", 0, 1], ["q", 0, 1]]
    (critic,) = out.glob("EVAL_3pt_vineppo_vine-s1-i0_text/eval/critic_sv_*.json")
    said = json.loads(critic.read_text())
    assert said["method_name"] == "critic_sv"
    assert said["values"] == pytest.approx([0.5, 0.9, 0.1])
    rows = qval.SCORES.read(out).set_index("method")
    assert rows.loc["critic_sv", ["spearman", "kendall_tau"]].tolist() == pytest.approx([1, 1])
    assert rows.loc["critic_sv", "num_points"] == 3
    before = sorted(out.rglob("*.json"))
    assert main(given) == 0
    assert sorted(out.rglob("*.json")) == before  # over the same files


def others(path, values, kind="eval", name="direct_sv"):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"method_name": name, "method_type": kind, "values": values, "config": {}}
    path.write_text(json.dumps(content))


def test_files_of_others_are_scored_without_their_missing_points(tmp_path):
    place = tmp_path / "predictions"
    others(place / "GT_4pt_maze_x/gt/sv_mc_mean_1.json", [0, 1, 2, None], "gt", "sv_mc_mean")
    others(place / "EVAL_4pt_maze_x_text/eval/direct_sv_1.json", [3, None, 1, 0])
    others(place / "EVAL_4pt_other_x_text/eval/direct_sv_1.json", [0])
    assert main(["qval", str(place), "--out", str(tmp_path / "out")]) == 0
    (row,) = qval.SCORES.read(tmp_path / "out").to_dict("records")
    assert (row["num_points"], row["pearson"]) == (2, -1.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [([1, 2], "must have a value for each of 3 points, got 2"), (["x"], "must have values and a")],
)
def test_files_that_do_not_fit_are_named(tmp_path, capsys, values, said):
    others(tmp_path / "GT_3pt_maze_x/gt/sv_mc_mean_1.json", [0, 1, 2], "gt", "sv_mc_mean")
    others(tmp_path / "EVAL_3pt_maze_x_text/eval/direct_sv_1.json", values)
    assert main(["qval", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "direct_sv_1.json" in error


def test_what_is_neither_is_refused(tmp_path, capsys):
    (tmp_path / "x").mkdir()
    assert main(["qval", str(tmp_path / "x")]) == 2
    assert "must be a run or hold QVal's gt/*.json" in capsys.readouterr().err
