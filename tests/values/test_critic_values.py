"""A critic's values: of which state, and what they do not depend on."""

import pytest
import torch
from support.critics import build_config, critic_of, sequences, start, values
from support.rollouts import CPU, two_rollouts

from vineppo.batching import collate
from vineppo.models import load_model
from vineppo.values.heads import ValueHead

KINDS = ("separate", "shared")
SEED = 7

pytestmark = pytest.mark.usefixtures("sharded")


@pytest.fixture(scope="module", params=KINDS)
def models(configs, request):
    return start(build_config(configs, request.param, seed=SEED))


@pytest.fixture(scope="module")
def policy_model():
    return load_model("embedded:arithmetic_short", "float32", "sdpa").model


def rows(models, found):
    """The values of every response, by a batch of `found`."""
    batch = collate(found, CPU)
    values_BT = values(models, batch)
    assert values_BT[~batch.response_mask_BT].abs().max() == 0
    return [row[mask] for row, mask in zip(values_BT, batch.response_mask_BT, strict=True)]


def test_values_are_of_the_states_before_the_tokens(models, policy_model):
    """The head on the last state of every bare prefix, each passed alone through HF's model."""
    head = ValueHead(policy_model.config.hidden_size, torch.float32, "normal", SEED)
    found = sequences(3)
    for sequence, values_T in zip(found, rows(models, found), strict=True):
        ids = [*sequence.prompt_ids, *sequence.response_ids]
        expected_T = []
        for t in range(len(sequence.response_ids)):
            prefix = torch.tensor([ids[: len(sequence.prompt_ids) + t]])
            with torch.no_grad():
                states = policy_model(input_ids=prefix, output_hidden_states=True).hidden_states
                expected_T.append((head.weight[0] @ states[-1][0, -1]).item())
        assert values_T.tolist() == pytest.approx(expected_T, abs=1e-5)
        assert values_T.std() > 0.1  # or a shift by one would pass


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_a_truncated_response_has_the_value_of_that_prefix(configs, kind):
    """As before the fourth token of a response that goes on; one that has ended has none."""
    config = build_config(configs, kind, credit__kind="gae_bootstrapped")
    critic = critic_of(models := start(config))
    _, cut_off = two_rollouts()
    ended, goes_on = two_rollouts()
    goes_on.response_ids += (4, 5)
    critic.estimate_after([ended, cut_off])
    values_T = rows(models, [goes_on])[0].tolist()
    assert cut_off.values_after == {"critic": pytest.approx(values_T[3], abs=1e-5)}
    assert values_T[3] != pytest.approx(values_T[2], abs=1e-3)
    assert not ended.values_after
    unasked = critic_of(start(build_config(configs, kind)))
    unasked.estimate_after([goes_on])
    assert not goes_on.values_after


@pytest.mark.parametrize("kind", KINDS)
def test_the_sampling_temperature_never_scales_a_value(configs, kind):
    batch = collate(sequences(4), CPU)
    cold, hot = (
        values(start(build_config(configs, kind, sampling__temperature=temperature)), batch)
        for temperature in (0.3, 1.7)
    )
    assert torch.equal(cold, hot)


def test_cross_entropy_keeps_values_in_its_range(configs):
    """V = low + (high − low) · σ(output), with the outputs of the squared error's critic."""
    batch = collate(sequences(4), CPU)
    mask_BT = batch.response_mask_BT
    outputs_BT = values(start(build_config(configs, "separate")), batch)
    bounded = {"kind": "cross_entropy", "low": -0.5, "high": 2.0}
    for kind in KINDS:
        models = start(build_config(configs, kind, critic__loss=bounded))
        values_BT = values(models, batch)
        expected_N = -0.5 + 2.5 / (1 + torch.exp(-outputs_BT[mask_BT]))
        torch.testing.assert_close(values_BT[mask_BT], expected_N, atol=1e-5, rtol=0)
        assert values_BT[~mask_BT].abs().max() == 0  # and not the value of an output of 0


@pytest.mark.parametrize("gradient_checkpointing", [False, True])
def test_dropout_of_the_models_config_is_off(configs, tmp_path, gradient_checkpointing):
    """Also in training mode, in which HF models checkpoint their activations."""
    loaded = load_model("embedded:arithmetic_short", "float32", "sdpa")
    loaded.model.config.attention_dropout = 0.5
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    changes = {
        "critic__path": str(tmp_path),
        "model__gradient_checkpointing": gradient_checkpointing,
    }
    config = build_config(configs, "separate", **changes)
    models = start(config)
    model = critic_of(models).hf_model
    assert model.config.attention_dropout == 0.5
    model.train()
    batch = collate(sequences(4), CPU)
    expected = values(start(build_config(configs, "separate")), batch)
    torch.testing.assert_close(values(models, batch), expected, atol=1e-5, rtol=0)
    assert torch.equal(values(models, batch), values(models, batch))
