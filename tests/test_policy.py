"""One update of the real policy under DeepSpeed: what may and what may not change its result."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from support.grids import grid
from support.policies import MODEL, build, relative, update
from support.rollouts import CPU, random_sequences
from support.tiny_models import random_model

from vineppo import token_scores
from vineppo.batching import collate
from vineppo.models import disable_dropout, load_model
from vineppo.policy import DeepSpeedModule, Policy
from vineppo.token_scores import CHUNK_LOGITS, ForwardOptions, TokenLogprobs

pytestmark = pytest.mark.usefixtures("sharded")


def weights_after(config, found, **changes):
    policy, config = build(config, **changes)
    metrics = update(policy, found, config)
    return torch.cat([w.flatten().clone() for _, w in policy.named_weights()]), metrics


def test_micro_batch_size_does_not_change_the_update(config):
    found = random_sequences(24)
    start = torch.cat([w.flatten().clone() for _, w in build(config)[0].named_weights()])
    whole, metrics = weights_after(config, found, batch_size=24, micro_batch_size=24)
    assert relative(whole, start) > 1e-3
    assert 0 < metrics["policy/clip_frac"] < 1
    for size in (1, 7):
        weights, split = weights_after(config, found, batch_size=24, micro_batch_size=size)
        assert relative(weights, whole) < 1e-5
        for name, value in metrics.items():
            if name == "policy/padding_frac":
                continue
            assert split[name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.parametrize("is_packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_stage_does_not_change_the_update(config, stage, is_packed, monkeypatch):
    found = random_sequences(8)
    plain, _ = weights_after(config, found, batch_size=8, micro_batch_size=4)
    if is_packed:  # as on a GPU
        monkeypatch.setattr("vineppo.batching.PADDED_DEVICES", frozenset())
    sharded, _ = weights_after(config, found, batch_size=8, micro_batch_size=4, zero_stage=stage)
    assert relative(sharded, plain) < 1e-5


def test_nothing_is_dropped_in_training_mode():
    """OPT keeps a float where others have a module, and leaves out whole layers."""
    opt = random_model("OPTConfig", ffn_dim=64, word_embed_proj_dim=32, dropout=0.5, layerdrop=0.5)
    disable_dropout(opt)
    opt.train()
    first, second = (opt(torch.tensor([[3, 4, 5]])).logits for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("stage", "least", "most"), grid((0, 0.0, 5e-3), slow=[(1, 1e-2, 3e-2), (2, 0.0, 5e-3)])
)
def test_bfloat16_gradients_are_summed_in_float32(config, stage, least, most):
    """256 micro-batches against their sum in float64; under ZeRO 1 they are 2 % off."""
    generator = torch.Generator().manual_seed(0)
    pairs = torch.randn(256, 2, 8, 64, generator=generator).bfloat16()
    linear = torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)
    adam = replace(config.optimization, zero_stage=stage, max_grad_norm=1e9)
    module = DeepSpeedModule(linear, [[linear.weight]], torch.bfloat16, adam)

    module.update(list(pairs), partial(product, module), [1e-3], lambda _: True)
    (state,) = module._engine.optimizer.optimizer.state.values()
    found = state["exp_avg"].view(64, 64).cpu().double() / (1 - adam.adam_beta1)
    x, y = pairs.double().unbind(1)
    assert least <= relative(found, torch.einsum("bni,bnj->ij", y, x)) < most


@pytest.mark.slow
def test_bfloat16_on_one_rank_is_updated_as_under_zero_2(config, tmp_path, capsys):
    """A group at rate 0 stays, and starts afresh; what is saved goes on to the same bits."""
    pairs = torch.randn(2, 2, 8, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    start = torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(1)).bfloat16()

    def made(stage):
        both = [torch.nn.Linear(64, 64, bias=False, dtype=torch.bfloat16) for _ in range(2)]
        for linear, weight in zip(both, start, strict=True):
            linear.weight.data = weight.clone()
        adam = replace(config.optimization, zero_stage=stage, weight_decay=0.1)
        groups = [[linear.weight] for linear in both]
        return DeepSpeedModule(torch.nn.Sequential(*both), groups, torch.bfloat16, adam), groups

    def last(module, groups):
        pair, both = list(pairs[:1]), [1e-2, 1e-2]
        norms.append(module.update(pair, partial(product, module), both, lambda _: True).grad_norm)
        return torch.stack([weight.detach().cpu().double() for (weight,) in groups])

    found, norms = [], []
    for stage in (0, 2):
        module, groups = made(stage)
        module.update(list(pairs), partial(product, module), [0.0, 1e-2], lambda _: True)
        assert torch.equal(groups[0][0].cpu(), start[0])
        module.save_state(tmp_path / str(stage))
        found.append(last(module, groups))
        module, groups = made(stage)
        module.load_state(tmp_path / str(stage))
        assert torch.equal(last(module, groups), found[-1])
    assert norms == pytest.approx([norms[0]] * 4, rel=1e-3)
    assert relative(*found) < 1e-3
    assert relative(found[0], start.double()) > 1e-2
    assert not capsys.readouterr().out


def product(module, pair):
    return (module(pair[0].to(module.device)).float() * pair[1].to(module.device)).sum(), {}


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_an_optimizer_on_the_cpu_does_not_change_the_updates(config, stage):
    found, sizes = (
        random_sequences(8),
        {"batch_size": 8, "micro_batch_size": 4, "zero_stage": stage},
    )
    weights = {}
    for name in ("nothing", "optimizer"):
        policy, changed = build(config, offload=name, **sizes)
        for iteration in (1, 2):
            before = torch.cat([w.flatten().clone() for _, w in policy.named_weights()])
            update(policy, found, changed, iteration)
        weights[name] = before, torch.cat([w.flatten().clone() for _, w in policy.named_weights()])
    for here, there in zip(weights["optimizer"], weights["nothing"], strict=True):
        assert relative(here, there) < 1e-6
    assert not torch.equal(*weights["optimizer"])


@pytest.mark.parametrize(("stage", "is_old"), grid((0, False), slow=[(0, True), (2, True)]))
def test_state_round_trip_is_exact(config, tmp_path, stage, is_old):
    """Train, save, train on; a fresh policy that loads the state trains on to the same bits.

    Older versions had DeepSpeed save it.
    """
    found = random_sequences(16)
    policy, config = build(config, batch_size=8, zero_stage=stage)
    update(policy, found, config, 1)
    if is_old:
        policy.deepspeed._engine.save_checkpoint(str(tmp_path), tag="state")
    else:
        policy.deepspeed.save_state(tmp_path)
    update(policy, found, config, 2)
    other, _ = build(config, batch_size=8, zero_stage=stage)
    other.deepspeed.load_state(tmp_path)
    update(other, found, config, 2)
    for (_, a), (_, b) in zip(policy.named_weights(), other.named_weights(), strict=True):
        assert torch.equal(a, b)


def test_gradient_checkpointing_and_chunked_projection_change_nothing(config, monkeypatch):
    found = random_sequences(8)
    plain, _ = weights_after(config, found, batch_size=8)
    monkeypatch.setitem(CHUNK_LOGITS, "cpu", 300)  # 16 positions of 19 ids
    _, config = build(config, batch_size=8)
    loaded = load_model(MODEL, "float32", "sdpa")
    policy = Policy(loaded, config.optimization, gradient_checkpointing=True)
    update(policy, found, config)
    checkpointed = torch.cat([w.flatten() for _, w in policy.named_weights()])
    assert relative(checkpointed, plain) < 1e-5


@pytest.mark.parametrize("rows", [2, 128])
def test_logprobs_are_of_the_tempered_policy_without_padded_ids(monkeypatch, rows):
    """Against log_softmax written out, with a vocabulary cut below the model's."""
    monkeypatch.setitem(CHUNK_LOGITS, "cpu", 1)
    monkeypatch.setattr(token_scores, "MIN_PROJECTED", rows)
    projected, project = [], TokenLogprobs.logits
    monkeypatch.setattr(
        TokenLogprobs, "logits", lambda *args: projected.append(len(args[1])) or project(*args)
    )
    loaded = load_model(MODEL, "float32", "sdpa")
    num_ids, temperature = 15, 0.7
    found = random_sequences(3, num_ids=num_ids)
    batch = collate(found, CPU)
    with torch.no_grad():
        options = ForwardOptions(temperature, has_entropy=True)
        scores = TokenLogprobs(loaded.model, num_ids)(batch, options)
        logprobs_BT, entropy_BT = scores["logprobs_BT"], scores["entropy_BT"]
        for row, sequence in enumerate(found):
            ids = torch.tensor([*sequence.prompt_ids, *sequence.response_ids])
            logits_TV = loaded.model(ids[None]).logits[0, :-1, :num_ids] / temperature
            table_TV = torch.log_softmax(logits_TV, -1)[len(sequence.prompt_ids) - 1 :]
            expected_T = table_TV.gather(1, ids[len(sequence.prompt_ids) :, None]).squeeze(1)
            mask_T = batch.response_mask_BT[row]
            torch.testing.assert_close(logprobs_BT[row][mask_T], expected_T, atol=1e-5, rtol=1e-5)
            entropy_T = -(table_TV.exp() * table_TV).sum(-1)
            torch.testing.assert_close(entropy_BT[row][mask_T], entropy_T, atol=1e-5, rtol=1e-5)
            assert logprobs_BT[row][~mask_T].abs().max() == 0
    assert max(projected) == min(rows, sum(projected))
