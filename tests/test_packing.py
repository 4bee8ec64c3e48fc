"""Passes of a backbone: packed or padded they have the numbers of a plain one, and ask nothing.

Packed ones may have each prompt once.
"""

import pytest
import torch
from support.policies import MODEL
from support.rollouts import CPU, random_sequences, sequence
from support.tiny_models import random_model

from vineppo.batching import UpdateSizes, collate, micro_batches_of, num_tokens
from vineppo.models import can_pack, disable_dropout, has_attention_alone, let_pack, load_model
from vineppo.policy import Reference, checkpoint_activations
from vineppo.token_scores import (
    CHUNK_LOGITS,
    ForwardOptions,
    TokenLogprobs,
    TokenScores,
    hidden_before_tokens,
)
from vineppo.types import TokenSequence, Turn
from vineppo.update import POLICY_COLUMNS, policy_objective

META = torch.device("meta")  # has shapes and no values: whoever asks for one raises
PACKING = {
    "LlamaConfig": {},
    "Qwen2Config": {},
    "Qwen3Config": {"head_dim": 8},
    "GPT2Config": {"n_positions": 128, "pad_token_id": None},
}
ARCHITECTURES = {
    **PACKING,
    "Qwen2Config": {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "MistralConfig": {"sliding_window": 8},
    "Gemma2Config": {"head_dim": 8, "sliding_window": 8},
    "Gemma3TextConfig": {"head_dim": 8, "sliding_window": 8},
    "Phi3Config": {"sliding_window": 8},
    "Lfm2Config": {"layer_types": ["conv", "full_attention", "conv"]},
}


pytestmark = pytest.mark.usefixtures("packs_anywhere", "sharded")


@pytest.fixture
def packs_anywhere(monkeypatch):
    """As a GPU does."""
    monkeypatch.setattr("vineppo.batching.PADDED_DEVICES", frozenset())


def groups(num_prompts, num_samples):
    """Responses of all lengths behind a few prompts, one with an environment's tokens, shuffled."""
    prompts = [4 * one.prompt_ids for one in random_sequences(num_prompts)]
    responses = [one.response_ids for one in random_sequences(num_prompts * num_samples, seed=1)]
    found = [TokenSequence(prompts[i % num_prompts], r) for i, r in enumerate(responses)]
    found[3].turns = (Turn(0, 2, "a", 0.0), Turn(3, len(found[3].response_ids), "b", 1.0))
    return found


def states_and_gradients(model, batch):
    return and_gradients(model, hidden_before_tokens(model, batch))


def and_gradients(model, hidden_NH):
    weights = torch.linspace(-1, 1, hidden_NH.numel()).view_as(hidden_NH)
    (hidden_NH * weights).sum().backward()
    found = [w.grad for w in model.parameters()]
    model.zero_grad()
    return hidden_NH.detach(), found


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("found", [groups(3, 4), random_sequences(5)], ids=["groups", "alone"])
@pytest.mark.parametrize("name", PACKING)
def test_states_and_gradients_are_those_of_padded_rows(name, found, is_checkpointed):
    model = random_model(name, **PACKING[name]).base_model.double()
    let_pack(model)
    assert can_pack(model)
    padded, packed = collate(found, CPU), collate(found, CPU, packs=True)
    assert padded.packed is None
    assert packed.packed is not None
    assert packed.num_cells == packed.num_tokens <= padded.num_tokens
    expected, expected_gradients = states_and_gradients(model, padded)
    if is_checkpointed:
        checkpoint_activations(model)
        disable_dropout(model)
    states, gradients = states_and_gradients(model, packed)
    torch.testing.assert_close(states, expected)
    for one, other in zip(gradients, expected_gradients, strict=True):
        if one is None or other is None:  # GPT-2's positions: as many either way
            assert one is other
        else:
            # The models' norms and rotations are in float32 whatever the weights.
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def without_layout(attention):
    forward = attention.forward

    def forgetful(*given, **options):
        return forward(*given, **{n: x for n, x in options.items() if n != "layout"})

    attention.forward = forgetful


def test_a_model_that_cannot_passes_padded_rows():
    """A window of attention, another kernel, layers that keep the layout; the same batch serves."""
    batch = collate(groups(3, 4), CPU, packs=True)
    windowed = random_model("MistralConfig", sliding_window=8).base_model
    eager = random_model("LlamaConfig").base_model
    eager.set_attn_implementation("eager")
    keeping = random_model("StableLmConfig").base_model
    patched = random_model("LlamaConfig").base_model
    without_layout(patched.layers[1].self_attn)
    for model in (windowed, eager, keeping, patched):
        let_pack(model)
        assert not can_pack(model)
        whole = model(input_ids=batch.token_ids_BT, use_cache=False).last_hidden_state
        expected_NH = whole.flatten(0, 1)[batch.response_index_N - 1]
        torch.testing.assert_close(hidden_before_tokens(model, batch), expected_NH)


def test_sequences_that_would_see_each_other_end_the_pass():
    model = random_model("LlamaConfig").base_model
    let_pack(model)
    assert can_pack(model)
    without_layout(model.layers[1].self_attn)
    with pytest.raises(RuntimeError, match="have seen each other"):
        hidden_before_tokens(model, collate(groups(3, 4), CPU, packs=True))


def test_prompts_pass_once_only_where_that_saves():
    def packed(sequences):
        return collate(sequences, CPU, packs=True)

    alone = [sequence((1, 2), (3, 4, 5)), sequence((2, 1), (3, 4, 5))]
    for batch in (packed(alone), packed([])):
        assert batch.packed.responses == (0, 0)
    alike = [sequence((1, 2, 3, 4, 5), (6,) * n) for n in (4, 4, 3)]
    assert (num_tokens(alike, False), num_tokens(alike, True)) == (26, 16)
    assert packed(alike).num_tokens == 16
    assert (packed(alike).packed.rows, packed(alike).packed.responses) == ((1, 5), (3, 4))


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_groups_stay_together_where_that_takes_fewer_tokens(num_ranks):
    prompts = [(row,) * 20 for row in range(6)]
    found = [sequence(prompts[i % 6], (9,) * (3 + i % 7)) for i in range(48)]
    shares = [micro_batches_of(found, 4, r, num_ranks, CPU, True) for r in range(num_ranks)]
    batches = [[found[i] for i in batch] for share in shares for batch in share if batch]
    assert len({len(share) for share in shares}) == 1
    assert sorted(i for share in shares for batch in share for i in batch) == list(range(48))
    most = 4 * max(map(len, found))
    assert all(len(batch) * max(map(len, batch)) <= most for batch in batches)
    tokens = sum(num_tokens(batch, True) for batch in batches)
    assert tokens < 0.5 * num_tokens(found, False)


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_padded_numbers_are_those_of_a_plain_pass(name, is_checkpointed):
    """To the bit; rows of up to 38 tokens, windows of 8."""
    model = random_model(name, **ARCHITECTURES[name]).base_model
    batch = collate(random_sequences(4), CPU)
    states_BTH = model(input_ids=batch.token_ids_BT, use_cache=False).last_hidden_state
    plain_NH = states_BTH.flatten(0, 1)[batch.response_index_N - 1]
    expected_NH, expected = and_gradients(model, plain_NH)
    if is_checkpointed:
        checkpoint_activations(model)
        disable_dropout(model)
    found_NH, found = states_and_gradients(model, batch)
    assert torch.equal(found_NH, expected_NH)
    for one, other in zip(found, expected, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_pass_asks_the_device_nothing(name):
    """But where a layer recurs, which a cache that holds nothing cannot serve."""
    model = random_model(name, **ARCHITECTURES[name]).base_model.to(META)
    batch = collate(random_sequences(4), META)
    assert has_attention_alone(model) is (name != "Lfm2Config")
    if has_attention_alone(model):
        hidden_before_tokens(model, batch).sum().backward()
        group = [sequence((3, 4) * 9, one.response_ids) for one in random_sequences(6)]
        for found in (random_sequences(4), group):  # whole rows, and a prompt once
            packed = collate(found, META, packs=True)
            assert packed.packed.responses[0] == (6 if found is group else 0)
            hidden_before_tokens(model, packed).sum().backward()
    with pytest.raises(RuntimeError, match="meta"):
        model(input_ids=batch.token_ids_BT, use_cache=False)


@pytest.mark.parametrize("estimator", ["k3", "full"])
def test_the_loss_of_a_micro_batch_asks_the_device_nothing(config, monkeypatch, estimator):
    """Forward, objective and backward, with entropies and numbers, as an update has them."""
    monkeypatch.setitem(CHUNK_LOGITS, "meta", 1000)
    loaded = load_model(MODEL, "float32", "sdpa")
    reference = Reference(config.reference, config.model, loaded)
    reference.to(META)
    found = random_sequences(8)
    forward, batch = TokenLogprobs(loaded.model.to(META), 15), collate(found, META, POLICY_COLUMNS)
    options = ForwardOptions(0.7, reference if estimator == "full" else None, has_entropy=True)
    scores = TokenScores(**forward(batch, options))
    sizes = UpdateSizes.of(found, config.sampling.max_tokens)
    loss, _ = policy_objective(config, 1e-3, [], sizes, batch, scores)
    loss.backward()
    assert all(weight.grad is not None for weight in loaded.model.parameters())
