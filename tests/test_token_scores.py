"""Statistics of logits, and passes without a gradient over rollouts."""

import math
from functools import partial

import pytest
import torch
from support.rollouts import CPU, random_sequences

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model
from vineppo.policy import Reference
from vineppo.token_scores import (
    CHUNK_LOGITS,
    POOL,
    RolloutPass,
    Softmax,
    TokenScores,
    entropies,
    token_statistics,
)
from vineppo.types import Problem, Rollout

NUM_IDS, PADDED = 11, 13


def inputs(dtype=torch.float32, rows=7):
    generator = torch.Generator().manual_seed(0)
    logits, ref = torch.randn(2, rows, PADDED, generator=generator).to(dtype) * 3
    targets = torch.randint(NUM_IDS, (rows,), generator=generator)
    weights = torch.randn(3, rows, generator=generator)
    return logits, ref, targets, weights


def written_out(logits, ref, targets, softcap, temperature):
    """The definitions, in the logits' own precision, for autograd to differentiate."""

    def log_softmax(x):
        x = x[:, :NUM_IDS]
        z = x if softcap is None else softcap * torch.tanh(x / softcap)
        return torch.log_softmax(z / temperature, -1)

    log_p, log_q = log_softmax(logits), log_softmax(ref)
    p = log_p.exp()
    chosen = [x.gather(1, targets[:, None]).squeeze(1) for x in (log_p, log_q)]
    return chosen[0], -(p * log_p).sum(1), (p * (log_p - log_q)).sum(1), chosen[1]


def gradient(outputs, weights, leaf):
    total = sum((w * x).sum() for w, x in zip(weights, outputs[:3], strict=True))
    return torch.autograd.grad(total, leaf)[0]


@pytest.mark.parametrize("softcap", [None, 2.5])
@pytest.mark.parametrize("chunk", [PADDED, 3 * PADDED, 1000])
def test_values_and_gradients_are_those_of_the_definitions(monkeypatch, softcap, chunk):
    monkeypatch.setitem(CHUNK_LOGITS, "cpu", chunk)
    logits, ref, targets, weights = inputs()
    softmax = Softmax(NUM_IDS, softcap, temperature=0.7)
    exact = logits.double().requires_grad_()
    expected = written_out(exact, ref.double(), targets, softcap, 0.7)
    leaf = logits.clone().requires_grad_()
    found = token_statistics(leaf * 1, targets, softmax, True, ref)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(
        gradient(found, weights, leaf).double(),
        gradient(expected, weights.double(), exact),
        atol=5e-6,
        rtol=1e-4,
    )


def test_docstring_example_and_what_is_not_asked_for_is_zero():
    logits = torch.tensor([[math.log(2), 0.0, 0.0]])
    target = torch.tensor([1])
    softmax = Softmax(3, None, 1.0)
    logprob, entropy, kl, ref = token_statistics(logits, target, softmax, True, None)
    assert logprob.item() == pytest.approx(-1.386, abs=1e-3)
    assert entropy.item() == pytest.approx(1.040, abs=1e-3)
    assert (kl.item(), ref.item()) == (0, 0)
    assert token_statistics(logits, target, softmax, False, None)[1].item() == 0


def test_a_token_of_probability_0_adds_nothing():
    """−inf logits give what the same logits without those ids give, gradient 0 where they stand."""
    logits, ref, targets, weights = inputs()
    logits[:, NUM_IDS - 2 : NUM_IDS] = ref[:, NUM_IDS - 2] = -math.inf  # of the last, q > 0
    targets = targets % (NUM_IDS - 2)
    leaf, kept = logits.clone().requires_grad_(), logits[:, : NUM_IDS - 2].clone().requires_grad_()
    found = token_statistics(leaf * 1, targets, Softmax(NUM_IDS, None, 1.0), True, ref)
    log_p = torch.log_softmax(kept, -1)
    log_q = torch.log_softmax(ref[:, :NUM_IDS], -1)[:, : NUM_IDS - 2]
    of_target = log_p.gather(1, targets[:, None]).squeeze(1)
    expected = (of_target, -(log_p.exp() * log_p).sum(1), (log_p.exp() * (log_p - log_q)).sum(1))
    for a, b in zip(found, expected, strict=False):
        torch.testing.assert_close(a, b)
    gradients = gradient(found, weights, leaf), gradient(expected, weights, kept)
    torch.testing.assert_close(gradients[0][:, : NUM_IDS - 2], gradients[1], atol=5e-6, rtol=1e-4)
    assert gradients[0][:, NUM_IDS - 2 :].abs().max() == 0


def test_an_infinite_kl_that_is_clamped_has_the_gradient_0():
    """π(0) > 0 where π_ref(0) = 0; the clamp passes no gradient on, and 0 · inf would be NaN."""
    logits = torch.zeros(1, 3, requires_grad=True)
    ref = torch.tensor([[-math.inf, 0.0, 0.0]])
    kl = token_statistics(logits * 1, torch.tensor([1]), Softmax(3, None, 1.0), False, ref)[2]
    assert kl.item() == math.inf
    kl.clamp(0.0, 10.0).sum().backward()
    assert logits.grad.abs().max() == 0


MICRO_BATCH_SIZE = 3


@pytest.fixture(scope="module")
def reference(configs):
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    return Reference(config.reference, config.model, load_model(config.model.path, "float32", None))


def rollouts(count):
    return [
        Rollout(
            problem=Problem(f"p{i // 4}", "", ""),
            rollout_index=i % 4,
            prompt_ids=one.prompt_ids,
            response_ids=one.response_ids,
            logprobs_T=(),
            finish_reason="stop",
            text="",
        )
        for i, one in enumerate(random_sequences(count))
    ]


def table(reference, rollout, temperature):
    """log π of every id before each response token, [T, V], from HF's logits of one sequence."""
    model = reference._forward.model
    with torch.no_grad():
        logits_TV = model(torch.tensor([[*rollout.prompt_ids, *rollout.response_ids]])).logits[0]
    num_ids = reference._forward.num_token_ids
    start = len(rollout.prompt_ids) - 1
    return torch.log_softmax(logits_TV[start:-1, :num_ids] / temperature, -1)


def alone(reference, rollout, temperature):
    table_TV = table(reference, rollout, temperature)
    return [table_TV[t, token].item() for t, token in enumerate(rollout.response_ids)]


def pass_of(reference, temperature=0.7):
    forward = partial(reference.logprobs, temperature=temperature)
    return RolloutPass("ref_logprobs", forward, MICRO_BATCH_SIZE, CPU)


def test_every_rollout_gets_its_own_whenever_the_work_is_done(reference):
    found = rollouts(2 * POOL * MICRO_BATCH_SIZE + 5)
    due_at = []
    reference_pass = pass_of(reference)
    for number, rollout in enumerate(found, start=1):
        reference_pass.add(rollout)
        if reference_pass.is_due(number == len(found)):
            due_at.append(number)
            reference_pass.work()
    assert due_at == [POOL * MICRO_BATCH_SIZE, 2 * POOL * MICRO_BATCH_SIZE, len(found)]
    for rollout in found:
        expected_T = alone(reference, rollout, 0.7)
        assert rollout.tokens_T["ref_logprobs"] == pytest.approx(expected_T, abs=1e-4)
    assert reference_pass.work() == []


def test_a_pass_meets_no_other_rank(reference, monkeypatch):
    """Ranks pass as often as their own rollouts ask for; a rank that waited would wait for ever."""

    def meet(*_):
        raise AssertionError("a collective operation")

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.distributed, "all_reduce", meet)
    reference_pass = pass_of(reference)
    found = rollouts(2)
    for rollout in found:
        reference_pass.add(rollout)
    assert reference_pass.work() == found
    assert all("ref_logprobs" in rollout.tokens_T for rollout in found)


def test_entropies_are_those_of_the_tempered_policy(reference):
    found = rollouts(MICRO_BATCH_SIZE + 2)
    forward = entropies(lambda *given: TokenScores(**reference._forward(*given)), 0.7)
    entropy_pass = RolloutPass("entropies", forward, MICRO_BATCH_SIZE, CPU)
    for rollout in found:
        entropy_pass.add(rollout)
    assert entropy_pass.work() == found
    assert not entropy_pass.is_due(is_last=True)
    for rollout in found:
        table_TV = table(reference, rollout, 0.7)
        entropies_T = -(table_TV.exp() * table_TV).sum(-1)
        assert rollout.tokens_T["entropies"] == pytest.approx(entropies_T.tolist(), abs=1e-4)
