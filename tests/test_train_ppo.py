"""Whole PPO runs by the command line: warm-up, what they leave behind, SIGKILL in the warm-up."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from pyarrow.parquet import read_table
from safetensors.torch import load_file
from support.training import (
    PPO,
    SHARED_PPO,
    assert_same_runs,
    num_lines,
    timeless,
    train,
    train_killed_once,
    weights,
)

from vineppo.config.load import complete, evaluate_jsonnet
from vineppo.models import resolve_model_path

CRITIC_METRICS = [
    "loss", "clip_frac", "value_mean", "grad_norm", "lr", "explained_variance",
    "calibration_error", "value_std", "return_std",
]  # fmt: skip
pytestmark = pytest.mark.parametrize("settings", [PPO, SHARED_PPO], ids=["separate", "shared"])


@pytest.fixture
def whole(whole_runs, settings):
    return whole_runs("demo_ppo", settings)


def equal(one, other):
    return all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.slow
def test_a_kill_in_the_warm_up_changes_nothing(whole, settings, tmp_path):
    """After its first checkpoint."""
    killed = tmp_path / "killed"
    train_killed_once("checkpoints/iter_000001", killed, "demo_ppo", settings)
    assert num_lines(killed) <= 1
    assert "resumed after iteration 1" in train(killed, "demo_ppo", settings)
    assert_same_runs(killed, whole)


def test_warm_up_trains_the_critic_alone(whole, configs):
    start_path = complete(evaluate_jsonnet(str(configs / "demo_ppo.jsonnet")))["model"]["path"]
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
    # Undefined where, as in the second iteration, every problem's rollouts have one reward.
    assert isinstance(rows[0]["critic/within_problem_correlation"], float)


def test_the_kl_coefficient_adapts_after_the_warm_up(whole):
    coefs = [row["kl/coef"] for row in timeless(whole)]
    assert coefs[0] == coefs[1] == coefs[2]  # the third iteration's was fixed before its update
    assert coefs[3] != coefs[2]


def test_tables_hold_the_critics_values(whole):
    rows = read_table(whole / "values/iter_000001.parquet").to_pylist()
    assert all(row["returns_K"] == [] and row["critic_value"] is not None for row in rows)
