"""Benchmarks from the command line to their JSON. No test asserts a speed."""

import json

import pytest
from support.processes import ROOT, run_module


def run_benchmark(name, *options):
    return run_module(f"benchmarks.{name}", options, cwd=ROOT)


def test_quick_run_writes_its_numbers(tmp_path):
    out = tmp_path / "numbers.json"
    result = run_benchmark("values_throughput", "--quick", "--out", str(out))
    assert result.returncode == 0, result.stderr
    written = json.loads(out.read_text())
    assert written["name"] == "values_throughput"
    assert written["runs"] == 1
    figures, found = written["figures"], written["ratios"]["ours / ceiling"]
    assert 0 < found["min"] <= found["median"] <= found["max"]
    # Both sampled the same tokens. Every request has at least one.
    assert figures["sampled_tokens"] == figures["ceiling_tokens"] >= figures["requests"]
    assert figures["requests"] == figures["distinct_states"] * figures["workload"]["K"]
    # 8 prompts × 2 rollouts: the 8 first states are shared, the others mostly not.
    assert figures["rollouts"] == 16
    assert 8 <= figures["distinct_states"] <= figures["states"] - 8
    assert "ours / ceiling" in result.stdout


def test_a_missing_model_is_one_line_and_status_2(tmp_path):
    result = run_benchmark("values_throughput", "--quick", "--model", str(tmp_path / "nowhere"))
    assert result.returncode == 2
    assert result.stderr.strip().count("\n") == 0
    assert "nowhere" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["naive_schedule", "iteration", "train_step", "ground_truth", "phase_costs"]
)
def test_quick_runs_of_the_others_write_theirs(name, tmp_path):
    out = tmp_path / "numbers.json"
    result = run_benchmark(name, "--quick", "--out", str(out))
    assert result.returncode == 0, result.stderr
    written = json.loads(out.read_text())
    assert (written["name"], written["runs"]) == (name, 1)
    for ratio, found in written["ratios"].items():
        assert found["min"] <= found["median"] <= found["max"]
        assert ratio in result.stdout
