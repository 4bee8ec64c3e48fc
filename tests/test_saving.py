"""The policy on disk: the files of a model that is whole, whatever shards it."""

from dataclasses import replace

import pytest
import torch
from support.policies import MODEL, update
from support.rollouts import random_sequences

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model, with_adapters
from vineppo.policy import Policy, add_older_names
from vineppo.recipes.lora import Lora

LORA = Lora("lora", rank=3, alpha=6.0, target_modules=("q_proj", "down_proj"))
CHANGES = {"learning_rate": 1e-2, "max_mean_ratio": None, "batch_size": 8, "micro_batch_size": 4}


pytestmark = pytest.mark.usefixtures("sharded")


def trained(configs, dtype, stage, has_lora=False):
    """A policy with a buffer, after an update; its embedding is tied to the projection."""
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    loaded = load_model(MODEL, dtype, "sdpa")
    loaded.model.register_buffer("extra", torch.arange(3.0))
    loaded = with_adapters(loaded, LORA if has_lora else None, 0)
    optimization = replace(config.optimization, **CHANGES, zero_stage=stage)
    policy = Policy(loaded, optimization, gradient_checkpointing=False)
    config = replace(config, optimization=optimization, num_iterations=10)
    assert update(policy, random_sequences(8), config)["policy/grad_norm"] > 0
    return policy


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize(
    ("dtype", "stage"),
    [
        ("float32", 0),
        ("bfloat16", 0),
        ("bfloat16", 1),
        ("bfloat16", 2),
        ("bfloat16", 3),
        ("float32", 3),
    ],
)
def test_the_files_are_those_of_the_whole_model(configs, tmp_path, dtype, stage):
    """…as transformers writes it by itself; and it loads to the same bits."""
    import deepspeed

    policy = trained(configs, dtype, stage)
    policy.save_hf(tmp_path / "saved")
    parameters = list(policy.hf_model.parameters())
    with deepspeed.zero.GatheredParameters(parameters, enabled=stage == 3):
        policy.hf_model.save_pretrained(tmp_path / "whole")
    policy.tokenizer.save_pretrained(tmp_path / "whole")
    add_older_names(tmp_path / "whole")
    assert contents(tmp_path / "saved") == contents(tmp_path / "whole")
    found = load_model(str(tmp_path / "saved"), dtype, "sdpa").model
    start = load_model(MODEL, dtype, "sdpa").model
    for name, weight in policy.named_weights():
        assert torch.equal(weight.cpu(), found.get_parameter(name)), name
        assert not torch.equal(weight.cpu(), start.get_parameter(name)), name


@pytest.mark.parametrize("stage", [0, 2])
def test_the_files_of_a_merged_policy(configs, tmp_path, stage):
    """Those of the plain model, whose matrices are the merged ones."""
    policy = trained(configs, "float32", stage, has_lora=True)
    policy.save_hf(tmp_path / "saved")
    plain = load_model(MODEL, "float32", "sdpa").model
    plain.register_buffer("extra", torch.arange(3.0))
    with torch.no_grad():
        for name, weight in policy.named_weights():
            plain.get_parameter(name).copy_(weight)
    plain.save_pretrained(tmp_path / "whole")
    policy.tokenizer.save_pretrained(tmp_path / "whole")
    add_older_names(tmp_path / "whole")
    assert contents(tmp_path / "saved") == contents(tmp_path / "whole")
