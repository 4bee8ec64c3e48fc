"""What dev/benchmarks.md cites is whole: of which commit, machine and work, and how often."""

import json
from pathlib import Path

import pytest

from benchmarks.ground_truth import MAX_ROUNDS
from benchmarks.harness import NUM_RUNS

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
FILES = sorted(RESULTS.glob("*.json"))
# Under which name a benchmark keeps what each round gave.
ROUNDS = {
    "ground_truth": "measured_tokens_per_s",
    "iteration": "iterations",
    "naive_schedule": "measured_s",
    "request_cost": "measured_us",
    "scaling": "measured_s",
    "train_step": "seconds",
    "trl_grpo": "iterations",
    "values_throughput": "measured_tokens_per_s",
}


def lists_in(value):
    """All lists in nested tables."""
    if isinstance(value, dict):
        return [found for part in value.values() for found in lists_in(part)]
    return [value]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_result_is_of_whole_runs(file):
    result = json.loads(file.read_text())
    assert file.stem == f"{result['name']}_{result['figures']['model']}"
    assert result["runs"] >= (MAX_ROUNDS if result["name"] == "ground_truth" else NUM_RUNS)
    assert result["figures"]["quick"] is False
    assert {"cpu", "cores", "threads", "gpu", "python", "torch", "transformers"} <= set(
        result["machine"]
    )
    assert result["ratios"]
    for found in result["ratios"].values():
        assert found["min"] <= found["median"] <= found["max"]
    rounds = lists_in(result["figures"][ROUNDS[result["name"]]])
    assert {len(found) for found in rounds} == {result["runs"]}
