"""Passes beside the sampling, of reference and policy: whoever shares a batch, whenever."""

from functools import partial

import pytest
import torch
from support.rollouts import CPU, random_sequences

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model
from vineppo.policy import Reference
from vineppo.token_scores import POOL, RolloutPass, TokenScores, entropies
from vineppo.types import Problem, Rollout

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
