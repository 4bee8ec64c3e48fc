"""Whole runs by the command line: what they leave behind, and that SIGKILL changes nothing."""

import json
from pathlib import Path

import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file
from support.training import (
    METRICS,
    SMALL,
    arguments,
    finish,
    kill_when,
    num_lines,
    start,
    timeless,
)

from vineppo.cli import main


@pytest.fixture(scope="module")
def whole_run(configs, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("whole") / "run"
    finish(start(configs, run_dir))
    return run_dir


def test_sigkill_at_several_points_changes_nothing(configs, whole_run, tmp_path):
    run_dir = tmp_path / "killed"
    # Sampling of the first iteration, before any checkpoint.
    process = start(configs, run_dir)
    kill_when(process, (run_dir / "evaluations/iter_000000.json").exists)
    # A checkpoint that is being written.
    process = start(configs, run_dir)
    checkpoints = run_dir / "checkpoints"
    kill_when(process, (checkpoints / ".tmp-iter_000002/policy").exists)
    assert not (checkpoints / "iter_000002").exists()
    # In the middle of an iteration after a checkpoint, whose work is lost.
    process = start(configs, run_dir)
    kill_when(process, (run_dir / "rollouts/iter_000003.parquet").exists)
    assert num_lines(run_dir) in (2, 3)
    # Half a second into an iteration's sampling or update, with a checkpoint behind it.
    process = start(configs, run_dir)
    log = run_dir / "train.log"
    kill_when(process, lambda: "resumed after iteration 2" in log.read_text(), delay_s=0.5)
    # Just after a checkpoint.
    process = start(configs, run_dir)
    kill_when(process, (checkpoints / "iter_000004").exists)
    output = finish(start(configs, run_dir))
    assert "resumed after iteration 4" in output
    assert timeless(run_dir) == timeless(whole_run)
    for name in ("iter_000003.parquet", "iter_000005.parquet"):
        for kind in ("rollouts", "values"):
            read = pyarrow.parquet.read_table
            assert read(run_dir / kind / name).equals(read(whole_run / kind / name))
    there = load_file(whole_run / "final/policy/model.safetensors")
    here = load_file(run_dir / "final/policy/model.safetensors")
    assert all(torch.equal(here[key], there[key]) for key in there)


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
        assert row["tokens/prompt"] > 32 * 10 + row["values/num_continuations"] * 10
        assert 0 < row["tokens/prefix_cached"] < row["tokens/prompt"]
        assert row["values/num_states"] >= row["rollout/steps_mean"] * 32 - 1e-6
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
    assert len(rollouts) == 32
    for rollout in rollouts:
        states = by_rollout[rollout["problem_id"], rollout["rollout_index"]]
        assert [state["prefix_length"] for state in states] == rollout["step_starts"]
        assert all(len(state["returns_K"]) == 3 for state in states)
        first = sum(states[0]["returns_K"]) / 3
        assert sum(rollout["advantages_S"]) == pytest.approx(rollout["reward"] - first, abs=1e-6)
        assert len(rollout["logprobs"]) == len(rollout["response_ids"])


def test_finished_run_says_so(configs, whole_run, capsys):
    assert main(arguments(configs, whole_run, "demo_vineppo", SMALL)) == 0
    assert "finished already" in capsys.readouterr().out


def test_run_directory_of_another_config_is_refused(configs, whole_run, capsys):
    assert main(arguments(configs, whole_run, "demo_vineppo", {**SMALL, "seed": 9})) == 2
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
