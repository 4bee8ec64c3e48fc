"""The update of a separate critic, against one written out, and what may not change it."""

import math

import pytest
import torch
from support.critics import (
    build_config,
    critic_of,
    flat,
    relative,
    saved_weights,
    sequences,
    start,
    train,
)
from support.grids import grid
from support.rollouts import CRITIC_COLUMNS, with_column
from support.shared_critic import SQUARED

from vineppo.values.heads import load_value_model

CLIPPED = {"kind": "squared_error", "clip": 0.2}
BOUNDED = {"kind": "cross_entropy", "low": -1.0, "high": 2.0}

pytestmark = pytest.mark.usefixtures("sharded")


def whole_batch(configs, **changes):
    """One update an epoch on all 24 sequences."""
    changes = {"critic__batch_size": 24, "critic__micro_batch_size": 24, **changes}
    return build_config(configs, "separate", **changes)


def weights_after(config, found, directory):
    critic = critic_of(start(config))
    metrics = critic.update(found, 1)
    return saved_weights(critic, directory), metrics


def hidden_states(backbone, sequence):
    """[T, H] of the states before the response's tokens, without padding and company."""
    ids = torch.tensor([[*sequence.prompt_ids, *sequence.response_ids]])
    states_TH = backbone(input_ids=ids).last_hidden_state[0]
    return states_TH[len(sequence.prompt_ids) - 1 : -1]


def loss_by_hand(outputs_T, old_T, returns_T, loss):
    """Summed over the tokens of a sequence."""
    if loss["kind"] == "cross_entropy":
        share_T = torch.sigmoid(outputs_T)
        target_T = (returns_T - loss["low"]) / (loss["high"] - loss["low"])
        return -(target_T * share_T.log() + (1 - target_T) * (1 - share_T).log()).sum()
    error_T = (outputs_T - returns_T) ** 2
    if loss["clip"] is not None:
        kept_T = old_T + (outputs_T - old_T).clamp(-loss["clip"], loss["clip"])
        error_T = torch.maximum(error_T, (kept_T - returns_T) ** 2)
    return 0.5 * error_T.sum()


@pytest.mark.parametrize(
    ("loss", "of_head"), [(SQUARED, None), (CLIPPED, None), (BOUNDED, None), (BOUNDED, 1e-2)]
)
def test_an_update_is_the_one_written_out(configs, tmp_path, loss, of_head):
    """Two steps of torch's AdamW on Σ loss / tokens, every sequence passed alone, norm clipped."""
    config = whole_batch(
        configs,
        critic__loss=loss,
        critic__head_learning_rate=of_head,
        critic__num_epochs=2,
        critic__warmup_fraction=0,
        critic__weight_decay=0.1,
        critic__max_grad_norm=0.05,
    )
    found = sequences(24)
    weights, metrics = weights_after(config, found, tmp_path)
    model = load_value_model(config.critic, config.model, config.seed)
    head = {"params": model.score.parameters(), "lr": of_head or 1e-3}
    groups = [{"params": model.model.parameters()}, head]
    adam = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.1)
    num_tokens = sum(len(sequence.response_ids) for sequence in found)
    losses, norms = [], []
    for _ in range(2):
        total = 0.0
        for sequence in found:
            outputs_T = model.score(hidden_states(model.model, sequence)).squeeze(-1)
            old_T, returns_T = (torch.tensor(sequence.tokens_T[name]) for name in CRITIC_COLUMNS)
            part = loss_by_hand(outputs_T, old_T, returns_T, loss) / num_tokens
            part.backward()
            total += part.item()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05).item())
        adam.step()
        adam.zero_grad()
        losses.append(total)
    untrained = load_value_model(config.critic, config.model, config.seed)
    for part in ("score.", "model."):  # head and backbone, which is far longer than the head
        expected, moved, before = (
            flat({k: x.detach() for k, x in state.items() if k.startswith(part)})
            for state in (
                dict(model.named_parameters()),
                weights,
                dict(untrained.named_parameters()),
            )
        )
        assert relative(moved, before) > 1e-3
        # Adam's first step is the gradient's sign, which rounding decides where it is almost 0.
        assert relative(moved - before, expected - before) < 0.01
    assert metrics["critic/loss"] == pytest.approx(sum(losses) / 2, rel=1e-4)
    assert metrics["critic/grad_norm"] == pytest.approx(sum(norms) / 2, rel=1e-3)
    assert min(norms) > 0.05  # the clip had something to do
    assert (metrics["critic/clip_frac"] > 0) is (loss is CLIPPED)


SMALL = {"critic__batch_size": 8, "critic__micro_batch_size": 4}


@pytest.fixture(scope="module")
def plain(configs, tmp_path_factory):
    """The weights after the updates on 8 sequences, without any sharding."""
    directory = tmp_path_factory.mktemp("plain")
    return weights_after(whole_batch(configs, **SMALL), sequences(8), directory)[0]


@pytest.mark.parametrize("stage", grid(0, 3, slow=[1, 2]))
def test_zero_stage_and_a_skipped_update_do_not_change_the_update(configs, tmp_path, plain, stage):
    """After an update that is not finite, which leaves no trace, as stage 0 without one."""
    found = sequences(8)
    config = whole_batch(configs, **SMALL, critic__zero_stage=stage)
    critic = critic_of(start(config))
    before = saved_weights(critic, tmp_path / "before")
    broken = [with_column(s, "targets/critic", math.nan) for s in sequences(8, seed=1)]
    metrics = critic.update(broken, 1)
    assert metrics["critic/skipped_updates"] == config.critic.num_epochs
    assert math.isnan(metrics["critic/grad_norm"])
    unchanged = saved_weights(critic, tmp_path / "unchanged")
    assert all(torch.equal(unchanged[name], before[name]) for name in before)
    assert critic.update(found, 1)["critic/skipped_updates"] == 0
    weights = saved_weights(critic, tmp_path / "after")
    assert relative(flat(weights), flat(plain)) < 1e-5
    assert relative(flat(weights), flat(before)) > 1e-3


def test_rate_epochs_and_batch_size_are_the_critics_own(configs, monkeypatch):
    """3 epochs of 24 sequences in updates of 10: 9 an iteration, 18 in all, 9 of them warm-up."""
    config = build_config(
        configs,
        "separate",
        num_iterations=2,
        critic__num_epochs=3,
        critic__batch_size=10,
        critic__micro_batch_size=4,
        critic__warmup_fraction=0.5,
        critic__schedule="linear",
        optimization__num_epochs=1,
    )
    models = start(config)
    calls = []
    update = critic_of(models).deepspeed.update

    def recorded(micro_batches, loss, rates, sound):
        calls.append(([len(b.token_ids_BT) for b in micro_batches], rates[0]))
        return update(micro_batches, loss, rates, sound)

    monkeypatch.setattr(critic_of(models).deepspeed, "update", recorded)
    rates = []
    for iteration in (1, 2):
        metrics = train(config, models, sequences(24), iteration)
        assert metrics["policy/lr"] == 1e-3
        rates.append(metrics["critic/lr"])
    assert [sum(sizes) for sizes, _ in calls] == [10, 10, 4] * 6
    assert max(max(sizes) for sizes, _ in calls) <= 4
    rising, falling = [(u + 1) / 9 for u in range(9)], [(9 - u) / 9 for u in range(9)]
    assert [rate / 1e-3 for _, rate in calls] == pytest.approx(rising + falling)
    assert rates == [calls[8][1], calls[17][1]]


def test_warm_up_leaves_the_policy_as_it_is(configs, tmp_path):
    config = build_config(
        configs, "separate", critic__warmup_iterations=2, optimization__weight_decay=0.1
    )
    models = start(config)
    policy = flat(saved_weights(models.policy, tmp_path / "start"))
    for iteration in (1, 2, 3):
        metrics = train(config, models, sequences(8), iteration)
        groups = {name.split("/")[0] for name in metrics}
        assert groups == ({"critic", "policy"} if iteration == 3 else {"critic"})
        after = flat(saved_weights(models.policy, tmp_path / str(iteration)))
        assert torch.equal(after, policy) == (iteration < 3)
