"""Adapters: only they train, everyone else sees them merged, and a resumed run goes on exactly."""

import copy
import json
from dataclasses import replace

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from support.grids import grid
from support.policies import MODEL, update
from support.rollouts import random_sequences

from vineppo.batching import collate
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.engine import SampleRequest
from vineppo.errors import UserError
from vineppo.models import load_model, named_weights, with_adapters
from vineppo.policy import Policy, Reference
from vineppo.recipes.lora import Lora
from vineppo.token_scores import ForwardOptions, TokenLogprobs, hidden_before_tokens

LORA = Lora("lora", rank=3, alpha=6.0, target_modules=("q_proj", "v_proj", "down_proj"))
CHANGES = {"learning_rate": 1e-2, "max_mean_ratio": None, "batch_size": 8, "micro_batch_size": 4}


@pytest.fixture(scope="module")
def config(configs):
    found = load_config(TrainConfig, str(configs / "recipes/transformers_engine.jsonnet"), [])
    return replace(found, num_iterations=10, seed=0)


@pytest.fixture(scope="module")
def base():
    return dict(named_weights(load_model(MODEL, "float32", "sdpa").model))


def build(config, stage=0, seed=0, dtype="float32"):
    loaded = with_adapters(load_model(MODEL, dtype, "sdpa"), LORA, seed)
    optimization = replace(config.optimization, **CHANGES, zero_stage=stage)
    policy = Policy(loaded, optimization, gradient_checkpointing=False)
    return policy, replace(config, optimization=optimization)


@pytest.fixture(scope="module", params=grid(0, slow=[1, 2]))
def trained(config, request):
    """A policy after two updates."""
    policy, config = build(config, request.param)
    metrics = update(policy, random_sequences(16), config)
    assert metrics["policy/grad_norm"] > 0
    return policy


def trained_logits(policy, ids):
    return policy.hf_model(ids.to(policy.device)).logits.cpu()


def is_adapted(name):
    return name.rsplit(".", 2)[-2] in LORA.target_modules


def test_only_adapters_train(trained, base):
    moved = 0
    for name, weight in trained.hf_model.named_parameters():
        is_adapter = ".lora_" in name
        assert weight.requires_grad == is_adapter
        if not is_adapter:
            assert torch.equal(weight.cpu(), base[name.replace(".base_layer.", ".")])
        elif "lora_B" in name:
            assert weight.abs().max() > 0
            moved += weight.numel()
    groups = trained.deepspeed._engine.optimizer.param_groups
    inputs = {"q_proj": 128, "v_proj": 128, "down_proj": 352}
    assert moved == 4 * 3 * 3 * 128
    in_optimizer = sum(w.numel() for group in groups for w in group["params"])
    trainable = moved + 4 * 3 * sum(inputs.values())
    assert trainable <= in_optimizer < trainable + 100  # ZeRO pads its partitions


def test_merged_weights_are_pefts_own_merge(trained, base):
    found = dict(trained.named_weights())
    other = copy.deepcopy(trained.hf_model)
    for module in other.modules():
        if hasattr(module, "lora_A"):
            module.merge()
    merged_by_peft = {
        name.replace(".base_layer.", "."): weight
        for name, weight in named_weights(other)
        if ".lora_" not in name
    }
    assert found.keys() == merged_by_peft.keys() == base.keys()
    for name, weight in found.items():
        torch.testing.assert_close(weight, merged_by_peft[name], atol=1e-6, rtol=1e-5)
        assert torch.equal(weight.cpu(), base[name]) == (not is_adapted(name)), name


def test_the_engine_samples_from_the_merged_policy(config, trained):
    """The adapters' forward pass and the merged weights give the same log-probabilities."""
    loaded = load_model(MODEL, "float32", "sdpa")
    engine = config.engine.build(loaded.engine_model)
    prompt = tuple(loaded.tokenizer("4+6+6-5?\n")["input_ids"])
    gaps = []
    for policy in (loaded.model, trained.hf_model):
        engine.load_weights(LORA.merged_weights(policy))
        found = []
        engine.submit(SampleRequest(prompt, 40, 1.0, 1.0, 1, True), found.append)
        while engine.num_unfinished:
            engine.step()
        ids = torch.tensor([[*prompt, *found[0].token_ids]])
        with torch.no_grad():
            logits_TV = trained_logits(trained, ids)[0, len(prompt) - 1 : -1]
        table_TV = logits_TV[:, : loaded.engine_model.num_token_ids].log_softmax(-1)
        expected_T = table_TV.gather(1, ids[0, len(prompt) :, None]).squeeze(1)
        gaps.append(float((torch.tensor(found[0].logprobs_T) - expected_T).abs().max()))
    assert gaps[0] > 1e-2
    assert gaps[1] < 1e-4


def test_the_saved_adapters_are_the_policy_on_the_starting_one(trained, tmp_path):
    """Read by peft alone."""
    LORA.save(trained.hf_model, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "adapter_config.json", "adapter_model.safetensors",
    }  # fmt: skip
    start = load_model(MODEL, "float32", "sdpa").model
    assert json.loads((tmp_path / "adapter_config.json").read_text())[
        "base_model_name_or_path"
    ] == str(start.name_or_path)
    ids = torch.tensor([[1, 5, 9, 12, 7, 8]])
    with torch.no_grad():
        before = start(ids).logits
        found = PeftModel.from_pretrained(start, tmp_path)(ids).logits
        expected = trained_logits(trained, ids)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert (found - before).abs().max() > 1e-2


@pytest.mark.parametrize("reference_path", [None, MODEL])
def test_the_reference_is_the_policy_without_adapters(config, trained, reference_path):
    """Its own copy of the starting policy says the same, and the policy goes on with adapters."""
    plain = load_model(MODEL, "float32", "sdpa")
    loaded = replace(plain, model=trained.hf_model, adapters=trained.adapters)
    settings = replace(config.reference, path=reference_path)
    reference = Reference(settings, config.model, loaded)
    batch = collate(random_sequences(5), trained.device)
    plain = TokenLogprobs(load_model(MODEL, "float32", "sdpa").model.to(trained.device), 21)
    before_BT = trained.scores(batch, ForwardOptions(0.9)).logprobs_BT.detach()
    with torch.no_grad():
        expected_BT = plain(batch, ForwardOptions(0.9))["logprobs_BT"]
        hidden_NH = hidden_before_tokens(plain.model.base_model, batch)
        expected_NV = plain.logits(hidden_NH[:7])
    torch.testing.assert_close(reference.logprobs(batch, 0.9), expected_BT, atol=1e-5, rtol=1e-5)
    found_NV = reference.logits(batch)(slice(7))
    torch.testing.assert_close(found_NV, expected_NV, atol=1e-4, rtol=1e-4)
    assert not found_NV.requires_grad
    after = trained.scores(batch, ForwardOptions(0.9)).logprobs_BT
    assert torch.equal(after.detach(), before_BT)
    assert (before_BT - expected_BT).abs().max() > 1e-2
    assert after.requires_grad
    assert any(w.requires_grad for w in trained.hf_model.parameters())


@pytest.mark.parametrize(
    ("dtype", "stage"), grid(("float32", 0), slow=[("bfloat16", 0), ("float32", 2)])
)
def test_state_round_trip_is_exact(config, tmp_path, dtype, stage):
    """Adapters of another seed are replaced; the frozen weights are not in the state."""
    policy, config = build(config, stage, dtype=dtype)
    start = [weight.clone() for _, weight in policy.named_weights()]
    update(policy, random_sequences(16), config, 1)
    policy.deepspeed.save_state(tmp_path)
    update(policy, random_sequences(16), config, 2)
    other, _ = build(config, stage, seed=9, dtype=dtype)
    other.deepspeed.load_state(tmp_path)
    update(other, random_sequences(16), config, 2)
    for (_, a), (_, b) in zip(policy.named_weights(), other.named_weights(), strict=True):
        assert torch.equal(a, b)
    assert not all(map(torch.equal, start, (weight for _, weight in policy.named_weights())))
    assert all(".lora_" in name for name in load_file(tmp_path / "weight.safetensors"))


@pytest.mark.parametrize("target", ["query", "lm_head", "embed_tokens", "proj"])
def test_targets_that_cannot_be_adapted_are_refused(target):
    model = load_model(MODEL, "float32", "sdpa").model
    with pytest.raises(UserError) as error:
        replace(LORA, target_modules=("q_proj", target)).add(model, 0)
    assert str(error.value) == (
        "config: model.lora.target_modules must be among down_proj, gate_proj, k_proj, o_proj, "
        f"q_proj, up_proj, v_proj, got {target}"
    )
    assert not any(".lora_" in name for name, _ in model.named_parameters())
