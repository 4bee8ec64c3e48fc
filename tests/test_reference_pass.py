"""The reference's log-probabilities beside the sampling: whoever shares a batch, whenever."""

import random

import pytest
import torch

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model
from vineppo.reference_pass import POOL, ReferencePass
from vineppo.token_scores import Reference

CPU = torch.device("cpu")
MICRO_BATCH_SIZE = 3


@pytest.fixture(scope="module")
def reference(configs):
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    return Reference(config.reference, config.model, load_model(config.model.path, "float32", None))


def rollouts(count):
    stream = random.Random(0)
    return {
        (f"p{i // 4}", i % 4): tuple(
            tuple(stream.randrange(15) for _ in range(stream.randrange(3, 25))) for _ in range(2)
        )
        for i in range(count)
    }


def alone(reference, prompt_ids, response_ids, temperature):
    """From HF's logits of one sequence."""
    model = reference._forward.model
    with torch.no_grad():
        logits_TV = model(torch.tensor([[*prompt_ids, *response_ids]])).logits[0]
    num_ids = reference._forward.num_token_ids
    table_TV = torch.log_softmax(logits_TV[:, :num_ids] / temperature, -1)
    start = len(prompt_ids) - 1
    return [table_TV[start + t, token].item() for t, token in enumerate(response_ids)]


def test_every_rollout_gets_its_own_whenever_the_work_is_done(reference):
    found = rollouts(2 * POOL * MICRO_BATCH_SIZE + 5)
    due_at = []
    reference_pass = ReferencePass(reference, 0.7, MICRO_BATCH_SIZE, CPU)
    for number, (key, (prompt_ids, response_ids)) in enumerate(found.items(), start=1):
        reference_pass.add(key, prompt_ids, response_ids)
        if reference_pass.is_due(number == len(found)):
            due_at.append(number)
            reference_pass.work()
    assert due_at == [POOL * MICRO_BATCH_SIZE, 2 * POOL * MICRO_BATCH_SIZE, len(found)]
    rows = reference_pass.finish()
    assert rows.keys() == found.keys()
    for key, (prompt_ids, response_ids) in found.items():
        assert rows[key] == pytest.approx(alone(reference, prompt_ids, response_ids, 0.7), abs=1e-4)
    assert reference_pass.finish() == {}


def test_a_pass_meets_no_other_rank(reference, monkeypatch):
    """Ranks pass as often as their own rollouts ask for; a rank that waited would wait for ever."""

    def meet(*_):
        raise AssertionError("a collective operation")

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(torch.distributed, "all_reduce", meet)
    reference_pass = ReferencePass(reference, 1.0, MICRO_BATCH_SIZE, CPU)
    found = rollouts(2)
    for key, (prompt_ids, response_ids) in found.items():
        reference_pass.add(key, prompt_ids, response_ids)
    assert reference_pass.finish().keys() == found.keys()
