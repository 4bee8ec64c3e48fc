"""vLLM's engine alone; its work on a GPU runs here over a vLLM that only notes."""

import gc
from dataclasses import replace

import pytest
import torch
from support.engines import engine_config, request, run, start
from vllm.v1.sample.logits_processor import validate_logits_processors_parameters
from vllm.v1.worker.gpu.sample.logits_processor import (
    build_custom_logits_processors_params_validator as validator_on_gpu,
)

from vineppo.distributed import init_distributed
from vineppo.engine import Concurrency, EngineModel
from vineppo.engine.vllm_engine import padding_mask
from vineppo.errors import UserError


@pytest.fixture(scope="module")
def config(configs):
    return engine_config(configs, "vllm")


@pytest.mark.parametrize(
    ("num_running", "in_waves", "has_failed", "expected"),
    [
        (31, False, False, 33),
        (31, True, False, 0),
        (30, True, False, 2),
        (0, True, False, 32),
        (64, False, False, 0),
        (31, False, True, 1),
        (40, True, True, 0),
    ],
)
def test_admission(num_running, in_waves, has_failed, expected):
    concurrency = Concurrency(64 if has_failed else 32, 100)
    concurrency.limit = 32
    assert concurrency.admits(num_running, in_waves) == expected


def test_padded_ids_are_masked_under_both_of_vllms_runners():
    mask = padding_mask(3)
    validator_on_gpu([mask])(None)  # each raises for a class of the other runner
    validate_logits_processors_parameters([mask], None)
    on_cpu, on_gpu = mask(None, torch.device("cpu"), False), mask(None, None)
    expected = torch.tensor([[0.0, 0.0, 0.0, -torch.inf, -torch.inf]] * 2)
    assert torch.equal(on_cpu.apply(torch.zeros(2, 5)), expected)
    assert torch.equal(on_gpu.apply(torch.zeros(2, 5), None), expected)
    assert on_gpu.add_request(0, None), "it must be applied to every request"


@pytest.mark.skipif(torch.cuda.is_available(), reason="the rule is the CPU backend's")
def test_block_size_that_the_cpu_cannot_use_is_refused(config):
    with pytest.raises(UserError, match=r"engine\.block_size must be a multiple of 32"):
        replace(config, block_size=16).build(EngineModel("unused", 19, (1,)))


@pytest.mark.slow
def test_an_engine_that_was_dropped_takes_nothing_from_the_next(config, loaded, prompt):
    """Whatever is collected when: what goes down with an engine are vLLM's process groups."""
    init_distributed()
    dropped = start(config, loaded)
    (first,) = run(dropped, [request(prompt, 1)])
    gc.disable()
    dropped.itself = dropped  # as an exception's traceback may hold it
    del dropped
    gc.unfreeze()  # as vLLM does when another one ends
    try:
        (second,) = run(start(config, loaded), [request(prompt, 1)])
    finally:
        gc.enable()
    assert second.token_ids == first.token_ids
