"""The KL estimators on text that a real model sampled, against another real model."""

import math
from dataclasses import dataclass

import pytest
import torch
from support.rollouts import CPU, changed

from vineppo.batching import collate
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.kl import KL_ESTIMATORS
from vineppo.models import load_model
from vineppo.token_scores import ForwardOptions, Reference, TokenLogprobs, TokenScores
from vineppo.types import TokenSequence

NUM_SAMPLES, MAX_TOKENS = 1024, 12
PROMPTS = ("3+5*2-4=?\n", "7-2+6*3=?\n", "8*4+1-9=?\n", "5-5*7+2=?\n")  # of one length


@dataclass(frozen=True)
class Sampled:
    """Sums over each sampled response, [B]."""

    exact_B: torch.Tensor
    estimates_B: dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def sampled(configs) -> Sampled:
    """Responses at temperature 1; the reference has noise of a fifth on every matrix."""
    config = load_config(TrainConfig, str(configs / "demo_vineppo.jsonnet"), [])
    loaded = load_model(config.model.path, "float32", "sdpa")
    own = changed(config, reference={"path": None}).reference
    reference = Reference(own, config.model, loaded)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in reference._forward.parameters():
            noise = torch.randn(weight.shape, generator=generator)
            weight.add_(0.2 * weight.std() * noise if weight.dim() > 1 else 0.0)
    prompt_PT = torch.tensor([loaded.tokenizer(text)["input_ids"] for text in PROMPTS])
    torch.manual_seed(0)
    ids_BT = loaded.model.generate(
        prompt_PT, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MAX_TOKENS,
        num_return_sequences=NUM_SAMPLES // len(PROMPTS),
    )  # fmt: skip
    length = prompt_PT.shape[1]
    sequences = [
        TokenSequence(tuple(row[:length]), until_end(row[length:], loaded))
        for row in ids_BT.tolist()
    ]
    assert len({s.response_ids for s in sequences}) > 50
    batch = collate(sequences, CPU)
    with torch.no_grad():
        forward = TokenLogprobs(loaded.model, len(loaded.tokenizer))
        scores = TokenScores(**forward(batch, ForwardOptions(1.0, reference=reference)))
        logprobs_BT, kl_BT = scores.logprobs_BT, scores.kl_BT
        ref_BT = reference.logprobs(batch, 1.0)
    torch.testing.assert_close(scores.ref_logprobs_BT, ref_BT, atol=1e-5, rtol=0)
    estimates = {
        name: (estimate(logprobs_BT, ref_BT) * batch.response_mask_BT).double().sum(1)
        for name, estimate in KL_ESTIMATORS.items()
    }
    return Sampled(kl_BT.double().sum(1), estimates)


def until_end(row, loaded):
    end = loaded.tokenizer.eos_token_id
    return tuple(row[: row.index(end) + 1] if end in row else row)


def error(sampled, name):
    """Mean error of an estimator against the exact KL on the same prefixes, and its standard error.

    Each token's error has expectation 0 given its prefix, so their sums over responses have.
    """
    errors_B = sampled.estimates_B[name] - sampled.exact_B
    return errors_B.mean().item(), errors_B.std().item() / math.sqrt(NUM_SAMPLES)


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_k1_and_k3_agree_with_the_exact_kl_in_the_mean(sampled, name):
    """Within 4 standard errors, which are less than a fifth of the KL itself."""
    mean, standard_error = error(sampled, name)
    assert standard_error < 0.2 * sampled.exact_B.mean()
    assert abs(mean) < 4 * standard_error


@pytest.mark.parametrize("name", ["abs", "k2"])
def test_a_biased_estimator_shows_its_bias(sampled, name):
    """The tolerance above would not let it pass."""
    mean, standard_error = error(sampled, name)
    assert abs(mean) > 4 * standard_error


def test_the_exact_kl_is_positive_and_k3_varies_less_than_k1(sampled):
    assert sampled.exact_B.min() > 0
    assert error(sampled, "k3")[1] < error(sampled, "k1")[1]
