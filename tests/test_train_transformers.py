"""Whole runs without vLLM: the second engine trains, resumes, and needs nothing of the first."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from support.processes import environment
from support.training import (
    METRICS,
    SHORT,
    arguments,
    assert_same_runs,
    num_lines,
    timeless,
    train,
    train_killed_once,
    weights,
)

from vineppo.cli import main
from vineppo.engine import vllm_config
from vineppo.models import ASSETS

NAME = "recipes/transformers_engine"


@pytest.fixture(scope="module")
def whole_run(whole_runs):
    return whole_runs(NAME, SHORT)


def test_it_trains(whole_run):
    rows = [json.loads(line) for line in (whole_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert [name for name in METRICS if not isinstance(row.get(name), int | float)] == []
        assert row["rollout/engine_logprob_gap_max"] < 1e-3
        assert 0 < row["tokens/prefix_cached"] < row["tokens/prompt"]
        assert row["policy/grad_norm"] > 0
    start_policy = weights(whole_run, "checkpoints/iter_000001/policy")
    end_policy = weights(whole_run)
    assert any(not torch.equal(start_policy[key], end_policy[key]) for key in end_policy)


def test_a_kill_changes_nothing(whole_run, tmp_path):
    run_dir = tmp_path / "killed"
    train_killed_once("rollouts/iter_000002.parquet", run_dir, NAME, SHORT)
    assert num_lines(run_dir) == 1
    assert "resumed after iteration 1" in train(run_dir, NAME, SHORT)
    assert_same_runs(run_dir, whole_run)


# A machine where vllm is not installed.
BLOCKED = "import sys; sys.modules['vllm'] = None; from vineppo.cli import main; sys.exit(main({}))"


@pytest.mark.slow
def test_it_needs_no_vllm(tmp_path):
    once = {**SHORT, "num_iterations": 1}
    command = [sys.executable, "-c", BLOCKED.format(arguments(tmp_path / "run", NAME, once))]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert num_lines(tmp_path / "run") == 1


def test_the_other_engine_is_refused_without_vllm(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(vllm_config, "find_spec", lambda _: None)
    assert main(arguments(tmp_path / "run", "demo_vineppo", SHORT)) == 2
    assert capsys.readouterr().err.endswith(
        "config: engine.kind must be 'transformers' where vllm is not installed, got 'vllm'\n"
    )


TARGETS = ["q_proj", "v_proj", "down_proj"]
ADAPTERS = {"kind": "lora", "rank": 8, "alpha": 16, "target_modules": TARGETS}


@pytest.mark.slow
def test_adapters_train_and_resume(whole_runs, tmp_path):
    """Twice, once with a kill: merged policies that differ where there are adapters alone."""
    changes = {"model.lora": json.dumps(ADAPTERS), "optimization.learning_rate": 1e-3}
    settings, killed = {**SHORT, **changes}, tmp_path / "killed"
    whole = whole_runs(NAME, settings)
    train_killed_once("checkpoints/iter_000001", killed, NAME, settings)
    assert "resumed after iteration 1" in train(killed, NAME, settings)
    assert_same_runs(killed, whole)
    assert {path.name for path in (whole / "final").iterdir()} == {"policy", "adapter"}
    rows = timeless(whole)
    assert all(row["rollout/engine_logprob_gap_max"] < 1e-3 for row in rows)
    # The reference is the start: what the first iteration samples from is no further than noise.
    assert abs(rows[0]["kl/ref"]) < 1e-6 < rows[2]["kl/ref"]
    start_policy, end_policy = (
        load_file(ASSETS / "arithmetic_short/model.safetensors"),
        weights(whole),
    )
    assert end_policy.keys() == start_policy.keys()
    for name, weight in end_policy.items():
        is_adapted = any(target in name for target in ADAPTERS["target_modules"])
        assert torch.equal(weight, start_policy[name]) != is_adapted, name
