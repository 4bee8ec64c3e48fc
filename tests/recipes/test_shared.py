"""A head on the policy's backbone: one update for both, and a warm-up for the head alone."""

import pytest
import torch
from support.critics import (
    build_config,
    critic_of,
    relative,
    saved_weights,
    sequences,
    start,
    train,
)
from support.grids import grid

from vineppo.models import load_model

HEAD = "score.weight"

pytestmark = pytest.mark.usefixtures("sharded")


def one_update(configs, **changes):
    """One update an epoch, without a KL."""
    changes = {
        "reference__kl_coef": 0,
        "optimization__num_epochs": 1,
        "optimization__warmup_fraction": 0,
        **changes,
    }
    return build_config(configs, "shared", **changes)


def test_the_update_is_on_the_sum_of_both_losses(configs):
    """The gradient's norm against autograd through HF's model; the tokens that train differ."""
    coef, temperature = 0.7, 1.3
    config = one_update(configs, critic__coef=coef, sampling__temperature=temperature)
    models = start(config)
    found = sequences(8)
    metrics = train(config, models, found, 1)
    fresh = start(config)  # of the same seed, before its update
    head = critic_of(fresh).head
    model = load_model(config.model.path, "float32", "sdpa").model
    policy_losses, value_losses = [], []
    num_trained = sum(sum(s.tokens_T["is_trained"]) for s in found)
    num_tokens = sum(len(s.response_ids) for s in found)
    for s in found:
        ids = torch.tensor([*s.prompt_ids, *s.response_ids])
        hidden_TH = model.model(input_ids=ids[None]).last_hidden_state[0, len(s.prompt_ids) - 1 :]
        logits_TV = model.lm_head(hidden_TH)[:-1, : models.policy.tokenizer.vocab_size]
        logprobs_TV = torch.log_softmax(logits_TV / temperature, -1)
        logprobs_T = logprobs_TV.gather(1, ids[len(s.prompt_ids) :, None]).squeeze(1)
        old_T, advantages_T, is_trained_T, targets_T = (
            torch.tensor(s.tokens_T[name])
            for name in ("old_logprobs", "loss_advantages", "is_trained", "targets/critic")
        )
        ratio_T = torch.exp(logprobs_T - old_T)
        gain_T = torch.minimum(ratio_T * advantages_T, ratio_T.clamp(0.8, 1.2) * advantages_T)
        policy_losses.append(-gain_T[is_trained_T].sum() / num_trained)
        errors_T = head(hidden_TH[:-1]).squeeze(-1) - targets_T
        value_losses.append(0.5 * errors_T.square().sum() / num_tokens)
    total = sum(policy_losses) + coef * sum(value_losses)
    assert metrics["policy/loss"] == pytest.approx(total.item(), rel=1e-3)
    assert metrics["critic/loss"] == pytest.approx(sum(value_losses).item(), rel=1e-3)
    gradients = torch.autograd.grad(total, [*model.parameters(), *head.parameters()])
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
    assert metrics["policy/grad_norm"] == pytest.approx(norm, rel=1e-3)


@pytest.mark.parametrize("stage", grid(0, slow=[1, 2, 3]))
def test_warm_up_trains_the_head_alone(configs, tmp_path, stage):
    config = one_update(
        configs,
        critic__warmup_iterations=5,
        optimization__weight_decay=0.1,
        optimization__zero_stage=stage,
        optimization__micro_batch_size=3,
    )
    models = start(config)
    found = sequences(8)
    before = saved_weights(critic_of(models), tmp_path / "before")
    metrics = [train(config, models, found, iteration) for iteration in range(1, 6)]
    after = saved_weights(critic_of(models), tmp_path / "after")
    assert all(torch.equal(after[name], before[name]) for name in before if name != HEAD)
    assert relative(after[HEAD], before[HEAD]) > 0.1
    assert {name.split("/")[0] for found in metrics for name in found} == {"critic"}
    assert all(found["critic/lr"] == 1e-2 for found in metrics)
    losses = [found["critic/loss"] for found in metrics]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize("stage", grid(0, slow=[1, 2, 3]))
def test_after_the_warm_up_the_policy_starts_afresh(configs, tmp_path, stage):
    """As without a warm-up: schedule and Adam's moments, so a step of the full rate."""
    changes = {
        "optimization__zero_stage": stage,
        "optimization__warmup_fraction": 0.5,
        "optimization__schedule": "linear",
    }
    config = one_update(configs, critic__warmup_iterations=6, num_iterations=14, **changes)
    models = start(config)
    found = sequences(8)
    for iteration in range(1, 7):
        train(config, models, found, iteration)
    before = saved_weights(models.policy, tmp_path / "before")
    rates = []
    for iteration in (7, 8):
        metrics = train(config, models, found, iteration)
        rates.append((metrics["policy/lr"], metrics["critic/lr"]))
        if iteration == 7:
            after = saved_weights(models.policy, tmp_path / "after")
    assert rates == [(pytest.approx(f * 1e-3), pytest.approx(f * 1e-2)) for f in (0.25, 0.5)]
    for name in before:
        step = (after[name] - before[name]).abs().max().item()
        assert step == pytest.approx(0.25e-3, rel=0.01), name
