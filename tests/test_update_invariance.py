"""Micro-batches, padding and order change no update, for every term it may have."""

from dataclasses import replace

import pytest
import torch
from support.policies import MODEL, relative
from support.rollouts import CPU, changed, random_sequences, with_column

from vineppo.batching import collate, micro_batches_of
from vineppo.config.load import load_config
from vineppo.config.schema import PositiveExamples, SquaredError, TrainConfig
from vineppo.models import load_model
from vineppo.policy import Policy
from vineppo.recipes.shared import SharedCritic, SharedValueHead
from vineppo.update import update_policy
from vineppo.values.separate import SeparateValueModel

SHARED = SharedCritic(
    kind="shared", coef=0.5, head_learning_rate=1e-3, warmup_iterations=0,
    head_init="normal", loss=SquaredError("squared_error", 0.2),
)  # fmt: skip
EXTRAS = {"entropy_coef": 0.1, "positive_examples": PositiveExamples(0.1, 0.5), "dual_clip": 3.0}


@pytest.fixture(scope="module")
def config(configs):
    """One epoch of one update, so that the order of the sequences has no part in the shuffle."""
    config = load_config(TrainConfig, str(configs / "demo_ppo.jsonnet"), [])
    update = {"num_epochs": 1, "batch_size": 24, "learning_rate": 1e-3, "warmup_fraction": 0.0}
    config = changed(
        config, optimization={**update, "max_mean_ratio": None}, critic={**update},
        reference={"kl_coef": 0.1},
    )  # fmt: skip
    return replace(config, num_iterations=1)


def updated(config, found, packs=True):
    """The weights after one update of policy and head, and its metrics."""
    loaded = load_model(MODEL, "float32", "sdpa")
    heads = []
    if isinstance(config.critic, SharedCritic):
        heads = [SharedValueHead("critic", config, config.critic, loaded)]
    policy = Policy(loaded, config.optimization, False, *(one.head for one in heads))
    assert policy.packs
    policy.packs = packs
    metrics = update_policy(policy, found, heads, None, config, 1, config.reference.kl_coef)
    weights = [w.flatten().clone() for _, w in policy.named_weights()]
    for one in heads:
        weights.append(100 * one.head.weight.detach().flatten())  # else lost among the others
    return torch.cat(weights), metrics


def behind_three_prompts():
    """24 responses, in turns, behind prompts that are long enough to be worth sharing."""
    found = random_sequences(24)
    prompts = [3 * one.prompt_ids for one in found[:3]]
    for index, one in enumerate(found):
        one.prompt_ids = prompts[index % 3]
    return found


def test_micro_batches_do_not_change_updates_of_whole_groups(config):
    """Three updates, each of one prompt's responses, which a micro-batch of three parts."""
    groups = changed(config, optimization={"shuffle": "groups", "batch_size": 8})
    found = behind_three_prompts()
    whole, _ = updated(changed(groups, optimization={"micro_batch_size": 8}), found)
    split, _ = updated(changed(groups, optimization={"micro_batch_size": 3}), found)
    mixed, _ = updated(
        changed(groups, optimization={"micro_batch_size": 3, "shuffle": "rollouts"}), found
    )
    assert relative(split, whole) < 2e-5 < 1e-4 < relative(mixed, whole)


@pytest.mark.parametrize("size", [24, 7])
def test_packed_passes_do_not_change_an_update(config, size):
    """Policy and value head, with every term of the loss; 24 responses behind three prompts."""
    tables = {"optimization": {**EXTRAS, "micro_batch_size": size}, "critic": SHARED}
    config, found = changed(config, **tables), behind_three_prompts()
    shares = micro_batches_of(found, size, 0, 1, CPU, True)
    batches = [collate([found[i] for i in share], CPU, (), True) for share in shares]
    assert any(batch.packed is not None for batch in batches)  # each prompt once
    plain, metrics = updated(config, found, packs=False)
    shared, same = updated(config, found)
    assert relative(shared, plain) < 1e-5
    for name in metrics.keys() - {"policy/padding_frac"}:
        assert same[name] == pytest.approx(metrics[name], rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize(
    "tables",
    [
        {"optimization": {"loss_aggregation": "sequence_mean"}},
        {"optimization": {"loss_aggregation": "fixed_length"}},
        {"optimization": {"loss_aggregation": "sequence_sum", **EXTRAS}},
        {"optimization": {"loss_aggregation": "token_mean", **EXTRAS}, "critic": SHARED},
        {"reference": {"kl_estimator": "k1", "kl_gradient": "k2", "kl_aggregation": "token_mean"}},
        {"optimization": {"loss_aggregation": "sequence_mean", "policy_loss": "gspo"}},
        {"optimization": {"loss_aggregation": "token_mean", "policy_loss": "cispo"}},
    ],
    ids=["sequence_mean", "fixed_length", "bonuses", "shared_critic", "k1", "gspo", "cispo"],
)
def test_order_padding_and_micro_batches_do_not_change_the_policys_update(config, tables):
    """Against one micro-batch of all: one a micro-batch has no padding, 7 do not divide 24."""
    config = changed(config, **tables)
    found = random_sequences(24)
    found[3] = with_column(found[3], "is_trained", False)
    whole, metrics = updated(changed(config, optimization={"micro_batch_size": 24}), found)
    other = random_sequences(24, seed=1)
    assert relative(updated(config, other)[0], whole) > 1e-3
    for size, order in ((1, found), (7, found[::-1])):
        split, same = updated(changed(config, optimization={"micro_batch_size": size}), order)
        assert relative(split, whole) < 2e-5  # a GPU's sums: 1.5e-5
        for name, value in metrics.items():
            if name == "policy/padding_frac":
                continue
            assert same[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def test_order_padding_and_micro_batches_do_not_change_the_critics_update(config):
    def critic_after(found, size):
        settings = changed(config, critic={"micro_batch_size": size})
        loaded = load_model(MODEL, "float32", "sdpa")
        critic = SeparateValueModel("critic", settings, settings.critic, loaded)
        critic.start(None)
        batch = collate(found, critic.device)
        before_BT = critic.values(batch)
        metrics = critic.update(found, 1)
        assert (critic.values(batch) - before_BT).abs().max() > 1e-3
        return torch.cat([w.detach().flatten() for w in critic.hf_model.parameters()]), metrics

    found = random_sequences(24)
    whole, metrics = critic_after(found, 24)
    assert 0 < metrics["critic/clip_frac"] < 1
    for size, order in ((1, found), (7, found[::-1])):
        split, same = critic_after(order, size)
        assert relative(split, whole) < 1e-5
        assert same == pytest.approx(metrics, rel=1e-4, abs=1e-6)
