"""Whole runs by the command line: what they leave behind, and that SIGKILL changes nothing."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest
from support.training import (
    METRICS,
    NUM_ROLLOUTS,
    SMALL,
    arguments,
    assert_same_runs,
    timeless,
    train,
    train_killed_once,
)

from vineppo.cli import main


@pytest.fixture(scope="module")
def whole_run(whole_runs) -> Path:
    return whole_runs()


SEVERAL = (
    "evaluations/iter_000000.json",  # before any checkpoint
    "checkpoints/.tmp-iter_000002/policy",  # while one is written
    "checkpoints/iter_000002",
    "rollouts/iter_000003.parquet",
    "evaluations/iter_000004.json",
    "checkpoints/iter_000004",
)


@pytest.mark.parametrize(
    "paths", [("rollouts/iter_000004.parquet",), pytest.param(SEVERAL, marks=pytest.mark.slow)]
)
def test_sigkill_changes_nothing(whole_run, tmp_path, paths):
    """Each kill comes as soon as the path exists; what was not in a checkpoint is done again."""
    for path in paths:
        train_killed_once(path, tmp_path / "killed")
    assert f"resumed after iteration {2 if len(paths) == 1 else 4}" in train(tmp_path / "killed")
    assert_same_runs(tmp_path / "killed", whole_run)


def test_run_directory_is_as_designed(whole_run):
    names = {path.name for path in whole_run.iterdir()}
    assert names >= {
        "config.json", "environment.json", "metrics.jsonl", "train.log",
        "rollouts", "values", "evaluations", "checkpoints", "final",
    }  # fmt: skip
    (offline,) = (whole_run / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"engine_logprob_gap_max" in offline.read_bytes()
    rows = timeless(whole_run)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5]
    for row in rows:
        assert row["rollout/engine_logprob_gap_max"] < 1e-3
        # The prompt of every rollout and the prefix of every continuation, also when evaluated.
        assert row["tokens/prompt"] > NUM_ROLLOUTS * 10 + row["values/num_continuations"] * 10
        assert 0 < row["tokens/prefix_cached"] < row["tokens/prompt"]
        assert row["values/num_states"] >= row["rollout/steps_mean"] * NUM_ROLLOUTS - 1e-6
        assert row["values/num_continuations"] < 3 * row["values/num_states"]
    assert ["eval/pass@1" in row for row in rows] == [False, True, False, True, True]
    evaluations = sorted(path.name for path in (whole_run / "evaluations").iterdir())
    assert evaluations == [f"iter_{i:06d}.json" for i in (0, 2, 4, 5)]
    kept = sorted(path.name for path in (whole_run / "checkpoints").iterdir())
    assert kept == ["iter_000004", "iter_000005"]
    inside = {path.name for path in (whole_run / "checkpoints/iter_000005").iterdir()}
    assert inside == {"policy", "trainer", "state.json"}


def test_metrics_have_the_fixed_names(whole_run):
    rows = [json.loads(line) for line in (whole_run / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        assert [name for name in METRICS if not isinstance(row.get(name), int | float)] == []
    elapsed = [row["time/elapsed_s"] for row in rows]
    assert elapsed == sorted(elapsed)
    training = sum(row["time/total_s"] - row["time/evaluate_s"] for row in rows)
    assert elapsed[-1] == pytest.approx(training, rel=1e-6)


def test_rollouts_and_values_fit_together(whole_run):
    rollouts = pyarrow.parquet.read_table(whole_run / "rollouts/iter_000001.parquet").to_pylist()
    values = pyarrow.parquet.read_table(whole_run / "values/iter_000001.parquet").to_pylist()
    by_rollout: dict[tuple[str, int], list[dict]] = {}
    for row in values:
        by_rollout.setdefault((row["problem_id"], row["rollout_index"]), []).append(row)
    assert len(rollouts) == NUM_ROLLOUTS
    for rollout in rollouts:
        states = by_rollout[rollout["problem_id"], rollout["rollout_index"]]
        assert [state["prefix_length"] for state in states] == rollout["step_starts"]
        assert all(len(state["returns_K"]) == 3 for state in states)
        first = sum(states[0]["returns_K"]) / 3
        assert sum(rollout["advantages_S"]) == pytest.approx(rollout["reward"] - first, abs=1e-6)
        assert len(rollout["logprobs"]) == len(rollout["response_ids"])


def test_finished_run_says_so(whole_run, capsys):
    assert main(arguments(whole_run, "demo_vineppo", SMALL)) == 0
    assert "finished already" in capsys.readouterr().out


def test_run_directory_of_another_config_is_refused(whole_run, capsys):
    assert main(arguments(whole_run, "demo_vineppo", {**SMALL, "seed": 9})) == 2
    message = capsys.readouterr().err
    assert "holds a run of another config: seed is 1 there, 9 here" in message
    assert message.count("\n") == 1


def test_final_policy_loads_in_transformers(whole_run):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    directory = whole_run / "final/policy"
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory)
    ids = tokenizer("1+2?\n", return_tensors="pt")["input_ids"]
    assert model(ids).logits.shape[-1] >= len(tokenizer)
