"""The small runs of the tests: cut without changing what stays, free of where they were made."""

import json

import make_runs
import pytest
from pandas.testing import assert_frame_equal

from analysis.frames import learning_curve, read_run
from analysis.truth import read_truth
from analysis.value_states import Wanted, read_states
from vineppo.run_dir import RunDir

RUN = make_runs.RUNS / "demo_ppo_seed1"
CHECKPOINT = 0  # the starting policy, whose rollouts are of iteration 1


@pytest.fixture
def smaller(tmp_path):
    make_runs.cut(RUN, tmp_path / RUN.name, [CHECKPOINT], num_problems=2)
    return tmp_path / RUN.name


def test_what_is_committed_is_small_and_names_no_machine(capsys):
    make_runs.check(make_runs.RUNS)
    assert str(make_runs.RUNS) in capsys.readouterr().out


def test_of_rollouts_and_values_the_first_problems_stay_as_they_were(smaller):
    whole, cut = RunDir(RUN), RunDir(smaller)
    assert cut.iterations("rollouts") == cut.iterations("values") == [1]
    problems = list(dict.fromkeys(row["problem_id"] for row in whole.read_rollouts(1)))
    assert len(problems) > 2
    for before, after in (
        (whole.read_rollouts(1), cut.read_rollouts(1)),
        (whole.read_values(1), cut.read_values(1)),
    ):
        assert after == [row for row in before if row["problem_id"] in problems[:2]]
    states = {
        (row["problem_id"], row["rollout_index"], step)
        for row in cut.read_rollouts(1)
        for step in range(len(row["step_starts"]))
    }
    keys = ("problem_id", "rollout_index", "step_index")
    assert states == {tuple(row[key] for key in keys) for row in cut.read_values(1)}


def test_curves_are_those_of_the_whole_run(smaller):
    whole, cut = read_run(RUN), read_run(smaller)
    assert_frame_equal(learning_curve(cut), learning_curve(whole))
    assert_frame_equal(cut.metrics, whole.metrics)


def test_every_committed_truth_is_of_the_rollouts_beside_it():
    runs = sorted(path.parent for path in make_runs.RUNS.glob("*/config.json"))
    tables = sorted(make_runs.RUNS.glob("*/analysis/ground-truth/**/iter_*.parquet"))
    assert {path.parent.name for path in tables} == {run.name for run in runs}
    # `read_states` refuses a state that its run does not hold.
    rows = read_states(runs, make_runs.RUNS, None, Wanted(("constant",), (1,)))
    assert len(rows) == sum(len(read_truth(path)) for path in tables)


def test_the_command_keeps_its_words_and_loses_its_places():
    words = ["train", "configs/a.jsonnet", "--run-dir", "/home/me/runs/a", "--set", "seed=1"]
    first = {"command": ["/opt/vineppo/cli.py", *words], "python": "3.11.7"}
    found = make_runs.neutral(first | {"resumed": [first]})
    command = ["vineppo", "train", "configs/a.jsonnet", "--set", "seed=1"]
    again = {"command": command, "python": "3.11.7", "resumed": []}
    assert found == again | {"resumed": [again]}


def test_policies_and_figures_are_not_committed(smaller, tmp_path):
    analysis = smaller / "analysis" / "ground-truth"
    analysis.mkdir(parents=True)
    (analysis / "iter_000000.json").write_text("{}")
    (analysis / "ground_truth.png").write_bytes(b"PNG")
    make_runs.link(tmp_path, smaller / "final")
    make_runs.link(tmp_path / "none", smaller / "checkpoints")
    assert (smaller / "final").is_symlink()
    assert not (smaller / "checkpoints").is_symlink()
    make_runs.collect(tmp_path, [RUN.name], tmp_path / "committed")
    kept = tmp_path / "committed" / RUN.name
    assert not (kept / "final").exists()
    assert [path.name for path in (kept / "analysis").rglob("*.*")] == ["iter_000000.json"]
    assert RunDir(kept).read_rollouts(1) == RunDir(smaller).read_rollouts(1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("about.json", json.dumps({"run": [{"path": "/home/me/run"}]})),
        ("metrics.jsonl", '{"iteration": 1}\n{"path": "/home/me/run"}\n'),
        ("table.csv", 'run_dir,seed\n"/home/me/run",1\n'),
    ],
)
def test_a_place_of_the_machine_is_refused(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit, match=f"{name} names a place of this machine: /home/me/run"):
        make_runs.check(tmp_path)


def test_more_than_the_limit_is_refused(tmp_path, monkeypatch):
    (tmp_path / "values.parquet").write_bytes(bytes(1000))
    make_runs.check(tmp_path)
    monkeypatch.setattr(make_runs, "MAX_BYTES", 999)
    with pytest.raises(SystemExit, match="must not exceed 999 bytes"):
        make_runs.check(tmp_path)
