"""Whole runs without vLLM: the second engine trains, resumes, and needs nothing of the first."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from statistics import fmean

import pytest
import torch
from pyarrow.parquet import read_table
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
from support.uncertain import UNCERTAIN

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


def test_without_a_reference_nothing_else_changes(whole_runs):
    settings = {**SHORT, "num_iterations": 1, "reference.kl_coef": 0}
    measured = whole_runs(NAME, settings)
    free = whole_runs(NAME, {**settings, "reference.kl_estimator": "null"})
    (found,), (expected,) = timeless(free), timeless(measured)
    assert expected.keys() - found.keys() == {"kl/ref", "kl/ref_per_sequence", "kl/coef"}
    assert found.items() <= expected.items()
    mine, its = weights(free), weights(measured)
    assert all(torch.equal(mine[key], its[key]) for key in its)


def test_a_kill_changes_nothing(whole_run, tmp_path):
    run_dir = tmp_path / "killed"
    train_killed_once("rollouts/iter_000002.parquet", run_dir, NAME, SHORT)
    assert num_lines(run_dir) == 1
    assert "resumed after iteration 1" in train(run_dir, NAME, SHORT)
    assert_same_runs(run_dir, whole_run)


@pytest.mark.slow
def test_another_number_of_threads_is_said(whole_run, tmp_path):
    """A run that has more threads rounds differently."""
    run_dir = tmp_path / "moved"
    shutil.copytree(whole_run, run_dir, ignore=shutil.ignore_patterns("final", "iter_000003"))
    done = subprocess.run(
        [sys.executable, "-m", "vineppo.cli", *arguments(run_dir, NAME, SHORT)],
        env=environment(OMP_NUM_THREADS="2"), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "it goes on with 2 threads (OMP_NUM_THREADS), where it had 1" in done.stdout
    assert num_lines(run_dir) == 3


POSTERIOR = {
    "kind": "posterior", "num_candidates": 8, "size": 16, "learning_rate": 3e-3,
    "weight_decay": 0.05, "num_steps": 2, "batch_size": 4, "replay_iterations": 2,
}  # fmt: skip
PRIVILEGED = {**POSTERIOR, "kind": "privileged"}
del PRIVILEGED["size"]
EFFICIENT = {
    **{key: value for key, value in SHORT.items() if not key.startswith("credit.")},
    "credit": json.dumps({"kind": "martingale", "segmenter": {"kind": "lines"}}),
    "values": json.dumps(
        {"credit": "posterior", "predictors": {"posterior": POSTERIOR, "answer": PRIVILEGED}}
    ),
}


def test_a_kill_changes_nothing_for_a_predictor_that_learns_from_earlier_rollouts(
    whole_runs, tmp_path
):
    whole, run_dir = whole_runs(NAME, EFFICIENT), tmp_path / "killed"
    train_killed_once("rollouts/iter_000003.parquet", run_dir, NAME, EFFICIENT)
    assert "resumed after iteration 2" in train(run_dir, NAME, EFFICIENT)
    assert_same_runs(run_dir, whole)
    for name in ("posterior", "answer"):
        assert (run_dir / f"final/{name}/state.pt").exists()


TREE = {
    **{key: value for key, value in SHORT.items() if not key.startswith("credit.")},
    "rollouts.num_samples": 4,
    "credit": json.dumps({
        "kind": "tree", "segmenter": {"kind": "tokens", "num_tokens": 12}, "branching": [2, 2],
        "tokens_per_level": 12, "baseline": "mean", "normalize_std": False, "train_shared": "once",
    }),
}  # fmt: skip


@pytest.mark.slow
def test_a_tree_trains_and_a_kill_changes_nothing(whole_runs, tmp_path):
    whole, run_dir = whole_runs(NAME, TREE), tmp_path / "killed"
    rows = read_table(whole / "rollouts/iter_000001.parquet").to_pylist()
    assert [row["rollout_index"] for row in rows] == [0, 1, 2, 3] * 5
    num_sampled = 0
    for leaf, row in enumerate(rows):
        ids, shared = row["response_ids"], 12 * (leaf % 2)
        assert ids[:shared] == rows[leaf - leaf % 2]["response_ids"][:shared]
        num_sampled += max(len(ids) - shared, 0)
        before, after = rows[leaf - leaf % 4 :][:4], rows[leaf - leaf % 2 :][:2]
        means = [fmean(one["reward"] for one in node) for node in (before, after, [row])]
        assert row["advantages_S"][0] == pytest.approx(means[1] - means[0])
        assert row["advantages_S"][1:] == pytest.approx(
            [means[2] - means[1]] * (len(row["advantages_S"]) - 1)
        )
    first = json.loads((whole / "metrics.jsonl").read_text().splitlines()[0])
    assert first["tokens/rollout"] == num_sampled
    assert first["policy/grad_norm"] > 0
    train_killed_once("rollouts/iter_000002.parquet", run_dir, NAME, TREE)
    assert "resumed after iteration 1" in train(run_dir, NAME, TREE)
    assert_same_runs(run_dir, whole)


# A machine where vllm is not installed.
BLOCKED = "import sys; sys.modules['vllm'] = None; from vineppo.cli import main; sys.exit(main({}))"


def train_without_vllm(*given):
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(arguments(*given))],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_needs_no_vllm(tmp_path):
    once = {**SHORT, "num_iterations": 1}
    done = train_without_vllm(tmp_path / "run", NAME, once)
    assert done.returncode == 0, done.stderr
    assert num_lines(tmp_path / "run") == 1


def test_the_other_engine_is_refused_without_vllm(tmp_path):
    done = train_without_vllm(tmp_path / "run", "demo_vineppo", SHORT)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "config: engine.kind must be 'transformers' where vllm is not installed, got 'vllm'"
    )
    assert "Traceback" not in done.stderr


TARGETS = ["q_proj", "v_proj", "down_proj"]
ADAPTERS = {"kind": "lora", "rank": 8, "alpha": 16, "target_modules": TARGETS}


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


@pytest.mark.slow
def test_steps_by_entropies_with_a_kill(tmp_path):
    """By a policy under ZeRO 2 with adapters, whose frozen self is the reference."""
    segmenter = UNCERTAIN
    settings = {
        **SHORT,
        "credit.segmenter": json.dumps(asdict(segmenter)),
        "model.lora": json.dumps(ADAPTERS),
        "optimization.zero_stage": 2,
    }
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train(whole, NAME, settings)
    train_killed_once("rollouts/iter_000002.parquet", killed, NAME, settings)
    assert "resumed after iteration 1" in train(killed, NAME, settings)
    assert_same_runs(killed, whole)
    assert timeless(whole)[-1]["rollout/steps_mean"] > 1
