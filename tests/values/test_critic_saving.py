"""Critics on disk: for transformers, for a further run, and for one that goes on."""

import json

import pytest
import torch
from support.critics import (
    build_config,
    critic_of,
    sequences,
    start,
    train,
    values,
)
from support.grids import grid
from support.rollouts import CPU, rollout, terminal
from support.shared_critic import SQUARED
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from vineppo.batching import collate
from vineppo.errors import UserError
from vineppo.types import Rollout
from vineppo.values.heads import load_value_model

BOUNDED = {"kind": "cross_entropy", "low": 0.0, "high": 1.0}
KINDS = ("separate", "shared")
CHANGES = {"separate": {}, "shared": {"critic__warmup_iterations": 1}}

pytestmark = pytest.mark.usefixtures("sharded")


def trained(config):
    """Models after an update of policy and critic."""
    models = start(config)
    train(config, models, sequences(8), config.critic.warmup_iterations + 1)
    return models


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", grid(0, slow=[3]))
def test_transformers_loads_a_saved_critic(configs, tmp_path, kind, stage):
    """Its logit for a bare prefix is the value of the state before the next token."""
    table = "critic" if kind == "separate" else "optimization"
    models = trained(build_config(configs, kind, **{f"{table}__zero_stage": stage}))
    found = sequences(4)
    batch = collate(found, CPU)
    values_BT = values(models, batch)
    critic_of(models).save_hf(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert model.config.num_labels == 1
    assert model.config.value_range is None
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.get_vocab() == models.policy.tokenizer.get_vocab()
    for row, sequence in enumerate(found):
        length = len(sequence.prompt_ids)
        for t in (0, 1, len(sequence.response_ids) - 1):
            ids = [*sequence.prompt_ids, *sequence.response_ids[:t]]
            if ids[-1] == model.config.pad_token_id:  # which HF's pooling skips at the end
                continue
            with torch.no_grad():
                logit = model(input_ids=torch.tensor([ids])).logits.item()
            assert logit == pytest.approx(values_BT[row, length + t].item(), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_saved_config_says_how_outputs_are_read(configs, tmp_path, kind):
    models = trained(build_config(configs, kind, critic__loss={**BOUNDED, "low": -1.0}))
    policy_before = models.policy.hf_model.config.to_dict()
    critic_of(models).save_hf(tmp_path / "critic")
    written = json.loads((tmp_path / "critic/config.json").read_text())
    assert written["value_range"] == [-1.0, 1.0]
    assert written["architectures"] == ["LlamaForSequenceClassification"]
    assert models.policy.hf_model.config.to_dict() == policy_before
    models.policy.save_hf(tmp_path / "policy")
    policy = json.loads((tmp_path / "policy/config.json").read_text())
    assert policy["architectures"] == ["LlamaForCausalLM"]
    assert "value_range" not in policy


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_critic_starts_another_run(configs, tmp_path, kind):
    """Value pre-training: the same values, and not a new head, whatever the new run's seed."""
    models = trained(build_config(configs, kind, critic__loss=BOUNDED))
    critic_of(models).save_hf(tmp_path)
    config = build_config(
        configs, "separate", critic__loss=BOUNDED, critic__path=str(tmp_path), seed=99
    )
    batch = collate(sequences(4), CPU)
    expected = values(models, batch)
    torch.testing.assert_close(values(start(config), batch), expected, atol=1e-6, rtol=0)


def test_outputs_are_not_read_by_another_loss(configs, tmp_path):
    """Log-odds as values, or values as log-odds: the values would change without a word."""
    for number, (written, read, message) in enumerate(
        [
            (BOUNDED, SQUARED, "[0.0, 1.0] must be that of critic.loss, None"),
            (SQUARED, BOUNDED, "None must be that of critic.loss, [0.0, 1.0]"),
            (BOUNDED, {**BOUNDED, "low": -1.0}, "[0.0, 1.0] must be that of critic.loss, [-1.0"),
        ]
    ):
        path = tmp_path / str(number)
        critic_of(start(build_config(configs, "separate", critic__loss=written))).save_hf(path)
        config = build_config(configs, "separate", critic__loss=read, critic__path=str(path))
        with pytest.raises(UserError) as found:
            load_value_model(config.critic, config.model, 0)
        assert f"critic.path {path}: its value_range {message}" in str(found.value)


@pytest.mark.parametrize(
    ("kind", "stage"),
    grid(("separate", 0), ("shared", 0), slow=[("separate", 3), ("shared", 2), ("shared", 3)]),
)
def test_state_round_trip_is_exact(configs, tmp_path, kind, stage):
    """Train, save, train on; fresh models that load the state train on to the same bits.

    The shared critic's state is from its warm-up, the separate one's from a run without.
    """
    changes = {"optimization__zero_stage": stage, **CHANGES[kind]}
    if kind == "separate":
        changes["critic__zero_stage"] = stage
    config = build_config(configs, kind, **changes)
    found = sequences(12)
    models = start(config)
    train(config, models, found, 1)
    models.save_state(tmp_path / "state")
    restored = start(config)
    restored.load_state(tmp_path / "state")
    metrics = []
    for name, each in (("models", models), ("restored", restored)):
        metrics.append([train(config, each, found, iteration) for iteration in (2, 3)])
        each.save_hf(tmp_path / name)
    assert metrics[0] == metrics[1]
    for part in ("policy", "critic"):
        there, here = (
            (tmp_path / name / part / "model.safetensors").read_bytes()
            for name in ("models", "restored")
        )
        assert there == here


def rewarded(count: int, reward: float) -> list[Rollout]:
    return [rollout(terminal(reward, 3), values_T=(0.0,) * 3) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [SQUARED, BOUNDED], ids=["squared error", "cross-entropy"])
def test_a_head_of_the_mean_starts_at_the_rewards_mean(configs, tmp_path, kind, loss):
    """Not before the first iteration is valued: its rewards are not in its own baseline."""
    config = build_config(configs, kind, critic__loss=loss, critic__head_init="mean")
    models, batch = start(config), collate(sequences(4), CPU)
    mask_BT = batch.response_mask_BT
    before = values(models, batch)[mask_BT]
    assert torch.equal(before, torch.full_like(before, 0.5 if loss is BOUNDED else 0.0))
    critic = critic_of(models)
    for iteration_rewards in ((0.0, 0.25), (1.0, 1.0)):  # the first sets it once for all
        rollouts = [one for reward in iteration_rewards for one in rewarded(2, reward)]
        for one in rollouts:
            one.tokens_T["values/critic"] = (0.0,) * 3
        critic.prepare_update(rollouts)
        torch.testing.assert_close(values(models, batch)[mask_BT], torch.full_like(before, 0.125))
    critic.save_hf(tmp_path)
    again = start(build_config(configs, "separate", critic__loss=loss, critic__path=str(tmp_path)))
    torch.testing.assert_close(values(again, batch), values(models, batch))
    models.save_state(tmp_path / "trainer")
    resumed = start(config)
    resumed.load_state(tmp_path / "trainer")
    torch.testing.assert_close(values(resumed, batch), values(models, batch))
