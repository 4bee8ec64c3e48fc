"""What vLLM's engine alone does; what it does on a GPU runs here over a vLLM that only notes."""

import gc
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
import vllm
from support.engines import engine_config, request, run, start
from transformers import AutoConfig, LlamaConfig
from vllm.v1.sample.logits_processor import validate_logits_processors_parameters
from vllm.v1.worker.gpu.sample.logits_processor import (
    build_custom_logits_processors_params_validator as validator_on_gpu,
)

from vineppo.distributed import init_distributed
from vineppo.engine import EngineModel
from vineppo.engine.vllm_engine import VllmEngine, num_admitted, padding_mask
from vineppo.errors import UserError
from vineppo.models import resolve_model_path
from vineppo.recipes.engine_processes import EngineProcesses

MODEL = resolve_model_path("embedded:arithmetic_short")


@pytest.fixture(scope="module")
def config(configs):
    return engine_config(configs, "vllm")


@pytest.mark.parametrize(
    ("num_running", "limit", "in_waves", "has_failed", "expected"),
    [
        (31, 32, False, False, 33),
        (31, 32, True, False, 0),
        (30, 32, True, False, 2),
        (0, 32, True, False, 32),
        (64, 32, False, False, 0),
        (31, 32, False, True, 1),
        (40, 32, True, True, 0),
        (0, 1, True, False, 1),
    ],
)
def test_admission(num_running, limit, in_waves, has_failed, expected):
    assert num_admitted(num_running, limit, in_waves, has_failed) == expected


@pytest.fixture
def start_on_a_gpu(config, monkeypatch):
    def started(num_token_ids=9, enforce_eager=False):
        asked = {}

        def llm(**arguments):
            asked.update(arguments)
            torch.set_num_threads(1)
            return MagicMock()

        monkeypatch.setattr(vllm, "LLM", llm)
        changed = replace(config, max_num_seqs=4, enforce_eager=enforce_eager)
        VllmEngine(changed, EngineModel(MODEL, num_token_ids, (0,)))
        return asked

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return started


def test_what_a_gpu_is_asked_for(start_on_a_gpu, monkeypatch):
    """A graph for every batch; a mask where the embedding is padded; threads for the optimizer."""
    threads = [7]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    num_rows = AutoConfig.from_pretrained(MODEL).vocab_size
    asked = start_on_a_gpu(num_rows)
    assert asked["compilation_config"] == {"max_cudagraph_capture_size": 4}
    assert asked["logits_processors"] is None
    assert threads == [7, 1, 7]
    asked = start_on_a_gpu(num_rows - 1, enforce_eager=True)
    assert asked["compilation_config"] is None
    assert len(asked["logits_processors"]) == 1


@pytest.mark.parametrize("kind", [VllmEngine, EngineProcesses])
def test_an_engine_wakes_after_the_trainer_has_left_it_the_memory(kind, monkeypatch):
    """torch keeps what it has freed, and then no engine has room beside it."""
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    llm = SimpleNamespace(wake_up=lambda: calls.append("wake"))
    kind.wake(SimpleNamespace(_is_asleep=True, _llm=llm, _ask=calls.append))
    assert calls == ["empty", "wake"]


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


@pytest.mark.parametrize(("num_ranks", "heads", "kv_heads"), [(2, 9, 3), (2, 14, 7), (4, 14, 2)])
def test_ranks_that_cannot_divide_the_heads_are_refused(
    config, monkeypatch, tmp_path, num_ranks, heads, kv_heads
):
    sizes = {"num_attention_heads": heads, "num_key_value_heads": kv_heads}
    LlamaConfig(hidden_size=8 * heads, **sizes).save_pretrained(tmp_path)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(num_ranks))
    with pytest.raises(UserError, match=rf"must divide the model's {heads} attention heads, "):
        replace(config, tensor_parallel_size=num_ranks).build(EngineModel(str(tmp_path), 19, (1,)))


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


FREED_MIB = """
import ctypes, os
from vineppo.engine.vllm_engine import return_freed_memory

def resident_mib():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

# Pieces too small to be mapped one by one; the last one holds the heap's end in place.
pieces = [bytearray(b"x") * 60_000 for _ in range(2_000)]
del pieces[:-1]
before = resident_mib()
return_freed_memory()
print(before - resident_mib() if hasattr(ctypes.CDLL(None), "malloc_trim") else "no glibc")
"""


@pytest.mark.slow
def test_freed_pieces_inside_the_heap_are_given_back():
    command = [sys.executable, "-c", FREED_MIB]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert out == "no glibc" or float(out) > 80  # of 114 MiB that were freed
