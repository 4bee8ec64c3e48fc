"""Padding ids are masked under both of vLLM's runners; that of a GPU cannot run here."""

import torch
from vllm.v1.sample.logits_processor import validate_logits_processors_parameters
from vllm.v1.worker.gpu.sample.logits_processor import (
    build_custom_logits_processors_params_validator as validator_on_gpu,
)

from vineppo.engine.vllm_engine import padding_mask


def test_both_runners_take_it():
    """What vLLM calls at its start, and raises from for a class of the other runner."""
    mask = padding_mask(3)
    validator_on_gpu([mask])(None)
    validate_logits_processors_parameters([mask], None)


def test_ids_at_and_above_the_vocabulary_are_masked_however_it_is_called():
    mask = padding_mask(3)
    on_cpu, on_gpu = mask(None, torch.device("cpu"), False), mask(None, None)
    expected = torch.tensor([[0.0, 0.0, 0.0, -torch.inf, -torch.inf]] * 2)
    assert torch.equal(on_cpu.apply(torch.zeros(2, 5)), expected)
    assert torch.equal(on_gpu.apply(torch.zeros(2, 5), None), expected)
    assert on_gpu.add_request(0, None), "it must be applied to every request"
