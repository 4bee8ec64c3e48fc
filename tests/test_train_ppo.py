"""Whole PPO runs by the command line: warm-up, what they leave behind, SIGKILL in the warm-up."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from pyarrow.parquet import read_table
from safetensors.torch import load_file
from support.shared_critic import shared_critic
from support.training import SMALL, finish, kill_when, num_lines, start, timeless

from vineppo.config.load import evaluate_jsonnet
from vineppo.models import resolve_model_path

CRITIC_METRICS = ["loss", "clip_frac", "explained_variance", "value_mean", "grad_norm", "lr"]
SETTINGS = {
    "num_iterations": 4,
    "critic.warmup_iterations": 2,
    "critic.batch_size": 8,
    "critic.micro_batch_size": 4,
    "critic.num_epochs": 1,
    "checkpoint.every": 1,
    "checkpoint.keep": 4,
    "reference.kl_control": json.dumps({"kind": "adaptive", "target": 0.01, "horizon": 100}),
    "reference.kl_in": "reward",
    "reference.kl_estimator": "k1",
    "reference.kl_clamp": "null",
}
SHARED = shared_critic(warmup_iterations=2, loss={"kind": "squared_error", "clip": 0.2})


def settings(kind):
    small = {k: v for k, v in SMALL.items() if not k.startswith("credit.")}
    if kind == "separate":
        return {**small, **SETTINGS}
    own = {k: v for k, v in SETTINGS.items() if not k.startswith("critic.")}
    return {**small, **own, "critic": json.dumps(SHARED)}


@pytest.fixture(scope="module", params=["separate", "shared"])
def run_dirs(request, configs, tmp_path_factory):
    """An undisturbed run, and one that was killed after the warm-up's first checkpoint."""
    folder = tmp_path_factory.mktemp(request.param)
    whole, killed = folder / "whole", folder / "killed"
    changes = settings(request.param)
    finish(start(configs, whole, "demo_ppo", changes))
    process = start(configs, killed, "demo_ppo", changes)
    kill_when(process, (killed / "checkpoints/iter_000001").exists)
    assert num_lines(killed) <= 1
    assert "resumed after iteration 1" in finish(start(configs, killed, "demo_ppo", changes))
    return whole, killed


def weights(run_dir, name):
    return load_file(run_dir / name / "model.safetensors")


def equal(one, other):
    return all(torch.equal(one[key], other[key]) for key in one)


def test_a_kill_in_the_warm_up_changes_nothing(run_dirs):
    whole, killed = run_dirs
    assert timeless(killed) == timeless(whole)
    for name in ("final/policy", "final/critic"):
        assert equal(weights(killed, name), weights(whole, name))
    for kind in ("rollouts", "values", "value_diagnostics"):
        table = f"{kind}/iter_000004.parquet"
        assert read_table(killed / table).equals(read_table(whole / table))


def test_warm_up_trains_the_critic_alone(run_dirs, configs):
    whole, _ = run_dirs
    start_path = evaluate_jsonnet(str(configs / "demo_ppo.jsonnet"))["model"]["path"]
    before = load_file(Path(resolve_model_path(start_path)) / "model.safetensors")
    checkpoints = [whole / f"checkpoints/iter_{i:06d}" for i in (1, 2, 3, 4)]
    policies = [weights(path, "policy") for path in checkpoints]
    critics = [weights(path, "critic") for path in checkpoints]
    assert equal(policies[0], before)
    assert equal(policies[1], before)
    assert not equal(policies[2], before)
    for one, other in pairwise(critics):
        assert not torch.equal(one["score.weight"], other["score.weight"])
    rows = timeless(whole)
    assert ["policy/loss" in row for row in rows] == [False, False, True, True]
    for row in rows:
        assert all(isinstance(row[f"critic/{name}"], float) for name in CRITIC_METRICS)


def test_the_kl_coefficient_adapts_after_the_warm_up_and_is_resumed(run_dirs):
    coefs = [row["kl/coef"] for row in timeless(run_dirs[0])]
    assert coefs[0] == coefs[1] == coefs[2]  # the third iteration's was fixed before its update
    assert coefs[3] != coefs[2]


def test_tables_hold_the_critics_values(run_dirs):
    whole, _ = run_dirs
    rows = read_table(whole / "values/iter_000001.parquet").to_pylist()
    assert all(row["returns_K"] == [] and row["critic_value"] is not None for row in rows)
    found = sorted(path.name for path in (whole / "value_diagnostics").iterdir())
    assert found == ["iter_000002.parquet", "iter_000004.parquet"]
    rollouts = read_table(whole / "rollouts/iter_000004.parquet").to_pylist()
    bins = read_table(whole / "value_diagnostics/iter_000004.parquet").to_pylist()
    num_tokens = sum(len(rollout["response_ids"]) for rollout in rollouts)
    for axis in ("position", "percentile"):
        assert sum(row["count"] for row in bins if row["axis"] == axis) == num_tokens


def test_the_saved_critic_loads_in_transformers(run_dirs):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    directory = run_dirs[0] / "final/critic"
    model, report = AutoModelForSequenceClassification.from_pretrained(
        directory, output_loading_info=True
    )
    assert not report["missing_keys"]
    ids = AutoTokenizer.from_pretrained(directory)("1+2?\n", return_tensors="pt")["input_ids"]
    assert model(ids).logits.shape == (1, 1)
