"""Shapes of models without their weights, against published sizes and a pass with real tensors."""

import json

import pytest
import torch
from safetensors.torch import load_file
from support import hf_configs
from support.tiny_models import random_model

from vineppo.batching import collate
from vineppo.models import ASSETS
from vineppo.token_scores import hidden_before_tokens
from vineppo.tools.estimate.shape import Skeleton, read_hf_config
from vineppo.types import TokenSequence

EMBEDDED = "embedded:arithmetic_short"


def meta(path=EMBEDDED, dtype="float32", attention="sdpa", is_critic=False):
    return Skeleton(read_hf_config(path, "model.path", None), dtype, attention, is_critic)


def of_values(values, tmp_path, is_critic=False):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(values))
    hf_config = read_hf_config("not/there", "model.path", file)
    return Skeleton(hf_config, "bfloat16", "sdpa", is_critic).shape


# Parameters as published, and numbers of a token in the cache.
PUBLISHED = {
    "rho-1b": (hf_configs.RHO_1B, 1_100_048_384, 22 * 2 * 4 * 64),
    "deepseekmath-7b": (hf_configs.DEEPSEEKMATH_7B, 6_910_365_696, 30 * 2 * 32 * 128),
    "qwen2.5-0.5b": (hf_configs.QWEN_05B, 494_032_768, 24 * 2 * 2 * 64),
    "qwen2.5-7b": (hf_configs.QWEN_7B, 7_615_616_512, 28 * 2 * 4 * 128),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_cache_of_published_models(name, tmp_path):
    values, published, cache_numbers = PUBLISHED[name]
    shape = of_values(values, tmp_path)
    assert shape.num_parameters == published
    assert shape.cache_numbers == cache_numbers
    looked_up = 0 if shape.is_tied else values["vocab_size"] * values["hidden_size"]
    assert shape.matrix_parameters == published - looked_up


def test_a_critic_has_a_head_in_place_of_the_projection(tmp_path):
    tied = of_values(hf_configs.QWEN_05B, tmp_path, is_critic=True)
    assert tied.num_parameters == 494_032_768 + 896
    untied = of_values(hf_configs.RHO_1B, tmp_path, is_critic=True)
    assert untied.num_parameters == 1_100_048_384 - 32000 * 2048 + 2048


def test_parameters_are_those_of_the_shipped_weights():
    weights = load_file(ASSETS / "arithmetic_short" / "model.safetensors")
    assert meta().shape.num_parameters == sum(tensor.numel() for tensor in weights.values())


def saved_by_a_real_pass(model, batch):
    """Bytes of the distinct tensors that autograd keeps, weights left out."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden_NH = hidden_before_tokens(model.base_model, batch)
        assert hidden_NH.requires_grad
        return sum(size for size, _ in kept.values())


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("config_name", "changes"),
    [
        ("LlamaConfig", {}),
        ("LlamaConfig", {"num_key_value_heads": 4}),
        ("Qwen2Config", {}),
        ("Gemma2Config", {"head_dim": 8, "sliding_window": 8}),
    ],
    ids=["grouped", "llama", "qwen2", "gemma2"],
)
def test_what_a_pass_saves_is_what_a_real_one_does(config_name, changes, dtype, attention):
    """To the byte, but for the places of the response's tokens."""
    model = random_model(config_name, **changes).to(getattr(torch, dtype))
    model.set_attn_implementation(attention)
    sequences = [TokenSequence((1,) * 10, (5,) * length) for length in (40, 30, 20)]
    batch = collate(sequences, torch.device("cpu"))
    real = saved_by_a_real_pass(model, batch)
    estimated = Skeleton(model.config, dtype, attention).saved_bytes(3, 50)
    assert estimated == real - batch.response_index_N.nbytes
