"""Scoring an iteration with real models: whose log-probabilities, at which temperature."""

from dataclasses import replace

import pytest
import torch
from test_trainer import CREDIT, experience

from vineppo.batching import collate
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.models import Reference, TokenLogprobs, load_model
from vineppo.policy import Policy
from vineppo.sft import likelihood_loss
from vineppo.trainer import score
from vineppo.types import TrainSequence

TEMPERATURE = 0.7


@pytest.fixture(scope="module")
def config(configs):
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    sampling = replace(config.sampling, temperature=TEMPERATURE)
    return replace(config, sampling=sampling, credit=CREDIT)


@pytest.fixture(scope="module")
def models(config):
    loaded = load_model(config.model.path, "float32", "sdpa")
    reference = Reference(config.reference, config.model, loaded)
    return Policy(loaded, config.optimization, gradient_checkpointing=False), reference


def run(config, models, **changes):
    policy, reference = models
    config = replace(config, optimization=replace(config.optimization, **changes))
    return score(experience(), policy, reference.logprobs, config)


def expected_logprobs(config):
    """log π at the temperature, one row a rollout, by a model of its own."""
    loaded = load_model(config.model.path, "float32", "sdpa")
    found = experience().rollouts
    zeros = (0.0, 0.0, 0.0)
    sequences = [TrainSequence(r.prompt_ids, r.response_ids, zeros, zeros, zeros) for r in found]
    batch = collate(sequences, torch.device("cpu"))
    with torch.no_grad():
        logprobs_BT, _ = TokenLogprobs(loaded.model, len(loaded.tokenizer))(batch, TEMPERATURE)
    return [
        row[mask].tolist() for row, mask in zip(logprobs_BT, batch.response_mask_BT, strict=True)
    ]


def test_old_logprobs_are_whose_the_config_says(config, models):
    engine, _, _ = run(config, models, old_logprobs="engine")
    assert [s.old_logprobs_T for s in engine] == [r.logprobs_T for r in experience().rollouts]
    trainer, _, _ = run(config, models, old_logprobs="trainer")
    for sequence, expected in zip(trainer, expected_logprobs(config), strict=True):
        assert sequence.old_logprobs_T == pytest.approx(expected, abs=1e-5)


def test_reference_is_scored_at_the_policys_temperature(config, models):
    """The untrained policy is its own reference: the same numbers, and no KL."""
    sequences, _, metrics = run(config, models)
    for sequence, expected in zip(sequences, expected_logprobs(config), strict=True):
        assert sequence.ref_logprobs_T == pytest.approx(expected, abs=1e-5)
    assert metrics["kl/ref"] == pytest.approx(0, abs=1e-9)
    assert metrics["rollout/engine_logprob_gap_max"] > 0.1  # the rollouts' −0.5 is made up


def test_whitening_follows_its_switch_and_leaves_the_logged_advantages_raw(config, models):
    for is_whitened in (False, True):
        sequences, advantages, _ = run(config, models, whiten_advantages=is_whitened)
        assert advantages == [[-0.5, 1.0], [-0.5]]
        flat = [a for sequence in sequences for a in sequence.advantages_T]
        assert (abs(sum(flat)) < 1e-6) is is_whitened


def test_likelihood_is_that_of_the_response_alone():
    """Response tokens at log-probabilities −1 and −3 over 2 tokens: a loss of 2."""
    batch = collate(
        [TrainSequence((1, 2), (3, 4), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))], torch.device("cpu")
    )
    logprobs_BT = torch.tensor([[-7.0, -9.0, -1.0, -3.0]])
    total, _ = likelihood_loss(2)(batch, logprobs_BT, torch.zeros(1, 4))
    assert total.item() == pytest.approx(2.0)
