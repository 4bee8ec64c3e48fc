"""Each prompt passes once for all its responses: states and gradients are those of whole rows."""

import pytest
import torch
from support.rollouts import CPU, random_sequences, sequence
from support.tiny_models import random_model

from vineppo.batching import collate, micro_batches_of, num_cells
from vineppo.no_cache import can_continue_prompts
from vineppo.policy import checkpoint_activations
from vineppo.token_scores import hidden_before_tokens
from vineppo.types import TokenSequence, Turn

ARCHITECTURES = {
    "LlamaConfig": {},
    "Qwen2Config": {},
    "Qwen3Config": {"head_dim": 8},
    "GPT2Config": {"n_positions": 128, "pad_token_id": None},
}


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


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_states_and_gradients_are_those_of_whole_rows(name):
    model = random_model(name, **ARCHITECTURES[name]).base_model.double()
    found = groups(3, 4)
    plain, shared = collate(found, CPU), collate(found, CPU, shares_prompts=True)
    assert plain.shared is None
    assert shared.shared is not None
    assert shared.num_cells < plain.num_cells
    expected, expected_gradients = states_and_gradients(model, plain)
    states, gradients = states_and_gradients(model, shared)
    torch.testing.assert_close(states, expected)
    for one, other in zip(gradients, expected_gradients, strict=True):
        if one is None or other is None:  # GPT-2's positions: as many either way
            assert one is other
        else:
            # The models' norms and rotations are in float32 whatever the weights.
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_model_that_cannot_passes_whole_rows():
    """Recomputed activations, a window of attention, or another kernel; the same batch serves."""
    batch = collate(groups(3, 4), CPU, shares_prompts=True)
    assert batch.shared is not None
    windowed = random_model("MistralConfig", sliding_window=8).base_model
    recomputing = random_model("LlamaConfig").base_model
    checkpoint_activations(recomputing)
    eager = random_model("LlamaConfig").base_model
    eager.set_attn_implementation("eager")
    for model in (windowed, recomputing, eager):
        assert not can_continue_prompts(model)
        whole = model(input_ids=batch.token_ids_BT, use_cache=False).last_hidden_state
        expected_NH = whole.flatten(0, 1)[batch.response_index_N - 1]
        torch.testing.assert_close(hidden_before_tokens(model, batch), expected_NH)


def test_prompts_pass_apart_only_where_that_saves():
    alone = [sequence((1, 2), (3, 4, 5)), sequence((2, 1), (3, 4, 5))]
    assert collate(alone, CPU, shares_prompts=True).shared is None
    assert collate([], CPU, shares_prompts=True).shared is None
    alike = [sequence((1, 2, 3, 4, 5), (6,) * n) for n in (4, 4, 3)]
    assert (num_cells(alike, False), num_cells(alike, True)) == (27, 17)
    batch = collate(alike, CPU, shares_prompts=True)
    assert (batch.num_cells, batch.num_tokens) == (17, 5 + 11)


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_groups_stay_together_where_that_takes_fewer_tokens(num_ranks):
    prompts = [(row,) * 20 for row in range(6)]
    found = [sequence(prompts[i % 6], (9,) * (3 + i % 7)) for i in range(48)]
    shares = [micro_batches_of(found, 4, r, num_ranks, True) for r in range(num_ranks)]
    batches = [[found[i] for i in batch] for share in shares for batch in share if batch]
    assert len({len(share) for share in shares}) == 1
    assert sorted(i for share in shares for batch in share for i in batch) == list(range(48))
    most = 4 * max(map(len, found))
    assert all(num_cells(batch, False) <= most for batch in batches)
    by_length = [micro_batches_of(found, 4, r, num_ranks, False) for r in range(num_ranks)]
    plain = [[found[i] for i in batch] for share in by_length for batch in share if batch]
    cells = sum(num_cells(batch, True) for batch in batches)
    assert cells < 0.5 * sum(num_cells(batch, False) for batch in plain)


def test_without_a_prompt_twice_micro_batches_are_those_by_length():
    found = random_sequences(30)
    assert len({one.prompt_ids for one in found}) == 30
    assert micro_batches_of(found, 4, 0, 1, True) == micro_batches_of(found, 4, 0, 1, False)
