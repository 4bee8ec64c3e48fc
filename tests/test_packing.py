"""Packed passes, with each prompt once or not: states and gradients are those of padded rows."""

import pytest
import torch
from support.rollouts import CPU, random_sequences, sequence
from support.tiny_models import random_model

from vineppo.batching import collate, micro_batches_of, num_tokens
from vineppo.models import can_pack, disable_dropout
from vineppo.packing import let_pack
from vineppo.policy import checkpoint_activations
from vineppo.token_scores import hidden_before_tokens
from vineppo.types import TokenSequence, Turn

ARCHITECTURES = {
    "LlamaConfig": {},
    "Qwen2Config": {},
    "Qwen3Config": {"head_dim": 8},
    "GPT2Config": {"n_positions": 128, "pad_token_id": None},
}


pytestmark = pytest.mark.usefixtures("packs_anywhere")


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
    hidden_NH = hidden_before_tokens(model, batch)
    weights = torch.linspace(-1, 1, hidden_NH.numel()).view_as(hidden_NH)
    (hidden_NH * weights).sum().backward()
    found = [w.grad for w in model.parameters()]
    model.zero_grad()
    return hidden_NH.detach(), found


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("found", [groups(3, 4), random_sequences(5)], ids=["groups", "alone"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_states_and_gradients_are_those_of_padded_rows(name, found, is_checkpointed):
    model = random_model(name, **ARCHITECTURES[name]).base_model.double()
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


def test_packed_passes_are_as_few_as_the_bound_on_rows_lets_be():
    """Of 64 lengths from 10 to 1,000 padding below 5 % takes more than twice as many."""
    found = [sequence((i, 1), (9,) * round(10 * 100 ** (i / 63) - 2)) for i in range(64)]
    packed = micro_batches_of(found, 8, 0, 1, CPU, True)
    assert all(len(b) * max(len(found[i]) for i in b) <= 8 * 1000 for b in packed)
    assert len(packed) == 4
    assert len(micro_batches_of(found, 8, 0, 1, CPU, False)) > 2 * len(packed)
