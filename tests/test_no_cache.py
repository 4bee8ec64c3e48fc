"""A pass of the trainer's models asks the device nothing, and its numbers are a plain pass's."""

import pytest
import torch
from support.policies import MODEL, build
from support.rollouts import CPU, random_sequences, sequence
from support.tiny_models import random_model
from torch.utils._python_dispatch import TorchDispatchMode

from vineppo.batching import collate
from vineppo.minibatches import UpdateSizes
from vineppo.models import disable_dropout, load_model
from vineppo.packing import NoCache, has_attention_alone
from vineppo.policy import checkpoint_activations
from vineppo.token_scores import (
    ForwardOptions,
    Reference,
    TokenLogprobs,
    TokenScores,
    hidden_before_tokens,
)
from vineppo.update import POLICY_COLUMNS, policy_objective
from vineppo.vocabulary import CHUNK_LOGITS

META = torch.device("meta")  # has shapes and no values: whoever asks for one raises
WINDOWED = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
ARCHITECTURES = {
    "LlamaConfig": {},
    "Qwen2Config": WINDOWED,
    "Qwen3Config": {"head_dim": 8},
    "MistralConfig": {"sliding_window": 8},
    "Gemma2Config": {"head_dim": 8, "sliding_window": 8},
    "Gemma3TextConfig": {"head_dim": 8, "sliding_window": 8},
    "Phi3Config": {"sliding_window": 8},
    "GPT2Config": {"n_positions": 128, "pad_token_id": None},
    "Lfm2Config": {"layer_types": ["conv", "full_attention", "conv"]},
}


pytestmark = pytest.mark.usefixtures("sharded")


def gradients(model, hidden_NH):
    hidden_NH.square().sum().backward()
    found = [w.grad for w in model.parameters()]
    model.zero_grad()
    return found


@pytest.mark.parametrize("is_checkpointed", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_numbers_are_those_of_a_plain_pass(name, is_checkpointed):
    """To the bit; rows of up to 38 tokens, windows of 8."""
    model = random_model(name, **ARCHITECTURES[name]).base_model
    batch = collate(random_sequences(4), CPU)
    states_BTH = model(input_ids=batch.token_ids_BT, use_cache=False).last_hidden_state
    expected_NH = states_BTH.flatten(0, 1)[batch.response_index_N - 1]
    expected = gradients(model, expected_NH)
    if is_checkpointed:
        checkpoint_activations(model)
        disable_dropout(model)
    found_NH = hidden_before_tokens(model, batch)
    assert torch.equal(found_NH, expected_NH)
    for one, other in zip(gradients(model, found_NH), expected, strict=True):
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


def test_a_cache_that_holds_nothing_stays_so():
    model = random_model("LlamaConfig").base_model
    cache, token_ids = NoCache(), torch.tensor([[3, 4, 5, 6]])
    first, second = (
        model(input_ids=token_ids, past_key_values=cache, use_cache=False).last_hidden_state
        for _ in range(2)
    )
    assert torch.equal(first, second)
    assert cache.get_seq_length() == 0


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


class Questions(TorchDispatchMode):
    """Counts the numbers that Python asks tensors for: `item`, `if tensor`."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_nothing_is_asked_while_gradients_accumulate(config, stage):
    """Under DeepSpeed, from the first micro-batch's loss to the last one's of a second update.

    In the first, ZeRO 3 looks at the order of the layers.
    """
    policy, config = build(config, zero_stage=stage)
    found = random_sequences(12)
    parts = [found[i : i + 3] for i in range(0, 12, 3)]
    micro_batches = [collate(part, policy.device, POLICY_COLUMNS) for part in parts]
    sizes = UpdateSizes.of(found, config.sampling.max_tokens)
    questions, asked = Questions(), []

    def loss(batch, scores):
        asked.append(questions.count)
        return policy_objective(config, 1e-3, [], sizes, batch, scores)

    def update():
        options = ForwardOptions(1.0, has_entropy=True)
        policy.update(micro_batches, loss, options, [1e-3], lambda _: True)

    update()
    asked.clear()
    with questions:
        update()
    assert len(set(asked)) == 1
    assert questions.count > asked[0]  # the numbers leave in the end
