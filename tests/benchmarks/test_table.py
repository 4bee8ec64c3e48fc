"""The one table of speed: from results to rows, and `make bench` around it."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import matplotlib.font_manager  # noqa: F401 (on a fresh machine it runs a program once)
import pandas as pd
import pytest

import benchmarks.__main__ as bench
from benchmarks.table import ROWS, busy, costs, seconds, setting, table

PHASES = [
    {
        "phase": "remaining continuations",
        "s": 2.0,
        "shares": {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05},
    }
]
RUN = {"phases": dict.fromkeys(("generation", "scoring", "update", "sync"), 1.0), "seconds": 4.5}
RUNS = [RUN | {"tokens": tokens} for tokens in (100, 500, 900)]
BUSY = {f"seconds, {n}, {w}": 1.0 for n in ("ours", "as they are") for w in ("quiet", "busy")}
RESULTS = Path(bench.FOLDER) / "results"


def result(name, model="demo", commit="c" * 40, median=2.0):
    """All of a benchmark's ratios: the median, from a half to twice of it."""
    found = {"median": median, "min": median / 2, "max": 2 * median}
    source = {"commit": commit, "is_dirty": False}
    return {
        "name": name,
        "machine": {"cpu": "Z80", "gpu": None, "cores": 2, "torch": "9.9", "source": source},
        "runs": 5,
        "ratios": {row.ratio: found for row in ROWS if row.benchmark == name},
        "figures": {
            "model": model,
            "workload": {"K": 9},
            "phases": PHASES,
            "iterations": {"trl": RUNS},
            **BUSY,
        },
    }


def test_the_committed_table_is_that_of_the_committed_results_of_one_commit_and_machine():
    results, before = bench.read(RESULTS.glob("*.json"))
    for of_one in (results, before):
        machines = [found["machine"] for found in of_one]
        assert (
            len({(m["source"]["commit"], m["source"]["is_dirty"], m["cpu"]) for m in machines}) == 1
        )
    made = {f.__name__: f(results, before) for f in (table, setting)}
    made |= {f.__name__: f(results) for f in (seconds, costs, busy)}
    for name, rows in made.items():
        assert (RESULTS / f"{name}.csv").read_text() == rows.to_csv(index=False)


def test_a_row_has_median_and_range_of_both_policies_and_of_the_commit_before():
    usual = [result("train_step"), result("train_step", "small", median=3.0), result("iteration")]
    rows = table(usual).set_index("benchmark")
    assert len(rows) == 3
    packed = rows[rows["ratio"] == "packed / padded, tokens/s"].loc["train_step"]
    assert packed[["demo", "demo_low", "demo_high"]].tolist() == [2, 1, 4]
    assert packed[["real", "real_low", "real_high"]].tolist() == [3, 1.5, 6]
    assert pd.isna(rows.loc["iteration", "real"])
    assert rows["before"].isna().all()
    earlier = [result("iteration", commit="e" * 40, median=4.0)]
    assert table(usual, earlier).set_index("benchmark").loc["iteration", "before"] == 4
    assert "`eeeeeeeeeeee`" in setting(usual, earlier).set_index("what").value["before"]
    assert set(setting(usual)["value"]) >= {"`cccccccccccc`", "torch 9.9", "small"}


def test_seconds_are_a_token_and_of_the_costs_the_three_largest_stand():
    (row,) = seconds([result("trl_grpo"), result("iteration")]).to_dict("records")
    assert row == {"model": "demo", "side": "TRL, `generate`", "generation": 2, "scoring": 2} | {
        "update": 2, "sync": 2, "iteration": 9
    }  # fmt: skip
    alone = result("values_throughput", median=0.75)
    of_grpo = result("phase_costs")
    of_grpo["figures"]["workload"] = {"K": None}
    rows = costs([of_grpo, result("phase_costs"), alone])
    assert rows["method"].tolist() == ["VinePPO", "GRPO"]
    assert rows.iloc[0].to_dict() == {"method": "VinePPO", "s": 2, "limit": 1.5} | {
        "phase": "remaining continuations", "largest": "a 50%", "second": "b 30%", "third": "c 15%"
    }  # fmt: skip


def test_an_earlier_commit_stands_below_the_threads():
    measured = result("busy_machine")
    measured["figures"] |= {f"seconds, before, {when}": 3.0 for when in ("quiet", "busy")}
    measured["figures"]["before"] = {"commit": "b" * 40}
    assert busy([measured]).to_dict("records")[2] == {
        "threads": "before, commit `bbbbbbbbbbbb`", "alone": 3, "beside": 3
    }  # fmt: skip


class Runs:
    """Stands in for the benchmarks' processes: writes what they would, and fails for `failing`."""

    def __init__(self):
        self.names, self.failing = [], None

    def __call__(self, command, **_):
        if command[1] == "-m":
            name = command[2].removeprefix("benchmarks.")
            self.names.append(name)
            if name == self.failing:
                return SimpleNamespace(returncode=1)
            Path(command[command.index("--out") + 1]).write_text(json.dumps(result(name)))
        else:
            self.names.append(command[1])
        return subprocess.CompletedProcess(command, 0)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    folder = tmp_path / "benchmarks"
    (folder / "results").mkdir(parents=True)
    (folder / "results/old_demo.json").write_text("{}")
    source = {"commit": "c" * 40, "is_dirty": False}
    runs = Runs()
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "FOLDER", folder)
    monkeypatch.setattr(bench, "describe_source", lambda _: source)
    monkeypatch.setattr(bench.subprocess, "run", runs)
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    runs.source, runs.results = source, folder / "results"
    return runs


def test_only_what_has_no_result_at_this_commit_is_run_and_old_results_leave(runs):
    runs.failing = "train_step"
    assert bench.main() == 1
    all_names = [*dict.fromkeys(row.benchmark for row in ROWS), "phase_costs", "phase_costs"]
    assert runs.names == all_names  # the others run all the same
    assert [file.name for file in runs.results.iterdir()] == ["old_demo.json"]
    runs.names, runs.failing = [], None
    assert bench.main() == 0
    assert runs.names == ["train_step", "docs/pages.py"]
    tables = {f"{made.__name__}.csv" for made in (table, setting, seconds, costs, busy)}
    files = {f"{name}_demo.json" for name in all_names} | {"phase_costs_grpo.json"} | tables
    assert {file.name for file in runs.results.iterdir()} == files
    assert (runs.results.parent / "speed.png").stat().st_size > 0
    runs.names, runs.source["commit"] = [], "d" * 40
    assert bench.main() == 0
    assert runs.names == [*all_names, "docs/pages.py"]


def test_changes_that_are_not_committed_are_refused(runs, capsys):
    runs.source["is_dirty"] = True
    with pytest.raises(SystemExit):
        bench.main()
    assert "commit or stash your changes" in capsys.readouterr().err
    assert runs.names == []


def test_an_earlier_commits_own_benchmarks_give_a_column(runs, monkeypatch, tmp_path):
    earlier = tmp_path / "earlier"
    (earlier / "benchmarks").mkdir(parents=True)
    (earlier / "benchmarks/train_step.py").touch()
    monkeypatch.setattr("sys.argv", ["benchmarks", "--before", str(earlier)])
    assert bench.main() == 0
    assert runs.names[-2:] == ["train_step", "docs/pages.py"]
    rows = pd.read_csv(runs.results / "table.csv").dropna(subset=["before"])
    assert set(rows["benchmark"]) == {"train_step"}
