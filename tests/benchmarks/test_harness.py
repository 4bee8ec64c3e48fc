"""Reports of every benchmark, on numbers that are worked out by hand."""

import json

import pytest

from benchmarks.harness import Options, alternate, parse_options, ratio, report, spread
from benchmarks.workload import workload_config


def test_ratios_are_of_runs_of_one_round():
    # 2/1, 6/2, 4/4; the ratio of the medians would be 4/2 = 2 as well, of the maxima 6/4.
    assert ratio([2, 6, 4], [1, 2, 4]) == {"median": 2, "min": 1, "max": 3}


def test_alternatives_take_turns_and_every_other_round_runs_backwards():
    order = []

    def alternative(name):
        def measure():
            order.append(name)
            return float(len(order))

        return measure

    found = alternate(3, {name: alternative(name) for name in "abc"})
    assert "".join(order) == "abccbaabc"
    assert found == {"a": [1, 6, 7], "b": [2, 5, 8], "c": [3, 4, 9]}


def test_report_prints_and_writes_the_same_numbers(tmp_path, capsys):
    out = tmp_path / "numbers.json"
    ratios = {"ours / theirs": {"median": 1.25, "min": 1.0, "max": 1.5}}
    figures = {"tokens": 12, "rate": 3.5, "runs_s": [1.0, 2.0]}
    report("some", Options(False, None, out), 5, ratios, figures)
    written = json.loads(out.read_text())
    assert set(written) == {"name", "machine", "runs", "ratios", "figures"}
    assert (written["name"], written["runs"], written["ratios"]) == ("some", 5, ratios)
    command = "python -m benchmarks.some"
    assert written["figures"] == {"model": "demo", "quick": False, "command": command, **figures}
    assert {"cpu", "cores", "threads", "gpu", "python", "torch"} <= set(written["machine"])
    printed = capsys.readouterr().out
    for text in ("ours / theirs", "1.250", "1.500", "tokens", "12", "3.5"):
        assert text in printed
    assert "runs_s" not in printed  # lists are for the JSON alone


def test_assignments_come_last_and_are_part_of_the_command(monkeypatch, tmp_path):
    assigned = ["engine.max_num_seqs=16", "rollouts.num_prompts=16"]
    out = tmp_path / "numbers.json"
    sets = [word for assignment in assigned for word in ("--set", assignment)]
    monkeypatch.setattr("sys.argv", ["some", "--quick", *sets, "--out", str(out)])
    options = parse_options("some", "")
    config = workload_config(options, tmp_path)
    assert (config.engine.max_num_seqs, config.rollouts.num_prompts) == (16, 16)  # quick has 8
    report("some", options, 1, {"a / b": spread([1.0])}, {})
    command = json.loads(out.read_text())["figures"]["command"]
    assert command == "python -m benchmarks.some --quick " + " ".join(sets)


@pytest.mark.parametrize("out", [".", "missing/numbers.json"])
def test_an_out_that_cannot_be_written_is_refused_before_measuring(
    monkeypatch, tmp_path, capsys, out
):
    monkeypatch.setattr("sys.argv", ["some", "--out", str(tmp_path / out)])
    with pytest.raises(SystemExit, match="2"):
        parse_options("some", "")
    assert f"--out: {tmp_path / out}: " in capsys.readouterr().err
