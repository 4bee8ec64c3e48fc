"""Whole runs without vLLM: the second engine trains, resumes, and needs nothing of the first."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pyarrow.parquet import read_table
from safetensors.torch import load_file
from support.ranks import DIFFER, DIFFER_OF_VALUES, TORCHRUN, responses, weights
from support.training import (
    METRICS,
    SMALL,
    TIMEOUT_S,
    arguments,
    finish,
    kill_when,
    num_lines,
    timeless,
)

from vineppo.models import ASSETS

NAME = "demo_vineppo_transformers"
SETTINGS = {**SMALL, "num_iterations": 3, "checkpoint.every": 1, "checkpoint.keep": 3}
# A machine where vllm is not installed.
BLOCKED = "import sys; sys.modules['vllm'] = None; from vineppo.cli import main; sys.exit(main({}))"


def start(
    configs: Path, run_dir: Path, name: str = NAME, **changes: object
) -> subprocess.Popen[bytes]:
    given = arguments(configs, run_dir, name, {**SETTINGS, **changes})
    command = [sys.executable, "-c", BLOCKED.format(given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture(scope="module")
def whole_run(configs, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("transformers") / "run"
    finish(start(configs, run_dir))
    return run_dir


def test_it_trains_without_vllm(whole_run):
    rows = [json.loads(line) for line in (whole_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    for row in rows:
        assert [name for name in METRICS if not isinstance(row.get(name), int | float)] == []
        assert row["rollout/engine_logprob_gap_max"] < 1e-3
        assert 0 < row["tokens/prefix_cached"] < row["tokens/prompt"]
        assert row["policy/grad_norm"] > 0
    start_policy = load_file(whole_run / "checkpoints/iter_000001/policy/model.safetensors")
    end_policy = load_file(whole_run / "final/policy/model.safetensors")
    assert any(not torch.equal(start_policy[key], end_policy[key]) for key in end_policy)


def test_a_kill_changes_nothing(configs, whole_run, tmp_path):
    run_dir = tmp_path / "killed"
    process = start(configs, run_dir)
    kill_when(process, (run_dir / "rollouts/iter_000002.parquet").exists)
    assert num_lines(run_dir) in (1, 2)
    assert "resumed after iteration" in finish(start(configs, run_dir))
    assert timeless(run_dir) == timeless(whole_run)
    for kind in ("rollouts", "values"):
        table = f"{kind}/iter_000003.parquet"
        assert read_table(run_dir / table).equals(read_table(whole_run / table))


def test_two_ranks_train_to_the_numbers_of_one(configs, whole_run, tmp_path):
    """The same responses, weights within 1e-5 (relative), every metric within 1e-3."""
    run_dir = tmp_path / "two"
    given = arguments(configs, run_dir, NAME, SETTINGS)
    process = subprocess.Popen(
        [*TORCHRUN, "-m", "vineppo.cli", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    finish(process)
    for iteration in (1, 2, 3):
        assert responses(run_dir, iteration) == responses(whole_run, iteration)
    here, there = weights(run_dir, "policy"), weights(whole_run, "policy")
    assert (here - there).norm() / there.norm() < 1e-5
    for here_row, there_row in zip(timeless(run_dir), timeless(whole_run), strict=True):
        assert here_row.keys() == there_row.keys()
        for name, value in there_row.items():
            if name not in DIFFER | DIFFER_OF_VALUES:
                assert here_row[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name


def test_the_other_engine_is_refused_without_vllm(configs, tmp_path):
    process = start(configs, tmp_path / "run", "demo_vineppo")
    output = process.communicate(timeout=TIMEOUT_S)[0].decode()
    assert process.returncode == 2
    assert output.splitlines()[-1].endswith(
        "config: engine.kind must be 'transformers' where vllm is not installed, got 'vllm'"
    )
    assert "Traceback" not in output


ADAPTERS = {"rank": 8, "alpha": 16, "target_modules": ["q_proj", "v_proj", "down_proj"]}


def test_adapters_train_and_resume(configs, tmp_path):
    """Twice, once with a kill: merged policies that differ where there are adapters alone."""
    changes = {"model.lora": json.dumps(ADAPTERS), "optimization.learning_rate": 1e-3}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(configs, whole, **changes))
    process = start(configs, killed, **changes)
    kill_when(process, (killed / "checkpoints/iter_000001").exists)
    assert "resumed after iteration" in finish(start(configs, killed, **changes))
    rows = timeless(whole)
    assert rows == timeless(killed)
    assert all(row["rollout/engine_logprob_gap_max"] < 1e-3 for row in rows)
    # The reference is the start: what the first iteration samples from is no further than noise.
    assert abs(rows[0]["kl/ref"]) < 1e-6 < rows[2]["kl/ref"]
    start_policy = load_file(ASSETS / "arithmetic_short/model.safetensors")
    end_policy = load_file(whole / "final/policy/model.safetensors")
    assert end_policy.keys() == start_policy.keys()
    for name, weight in end_policy.items():
        is_adapted = any(target in name for target in ADAPTERS["target_modules"])
        assert torch.equal(weight, start_policy[name]) != is_adapted, name


@pytest.mark.parametrize("stage", [2, 3])
def test_states_that_leave_while_sampling_change_nothing(configs, tmp_path, stage):
    """Checkpoints are whole, and a run that was killed between them goes on from one."""
    rows = {}
    for offload in ("nothing", "while_sampling"):
        run_dir = tmp_path / offload
        changes = {"optimization.zero_stage": stage, "optimization.offload": offload}
        process = start(configs, run_dir, **changes)
        if offload == "while_sampling":
            kill_when(process, (run_dir / "rollouts/iter_000002.parquet").exists)
            assert "resumed after iteration" in finish(start(configs, run_dir, **changes))
        else:
            finish(process)
        rows[offload] = timeless(run_dir)
    assert rows["while_sampling"] == rows["nothing"]
