"""What the engine does on a GPU alone, run here without one: waves of requests, threads."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
import vllm
from support.engines import engine_config
from transformers import AutoConfig

from vineppo.engine.interface import EngineModel
from vineppo.engine.vllm_engine import VllmEngine, num_admitted
from vineppo.models import resolve_model_path
from vineppo.recipes.engine_processes import EngineProcesses


@pytest.mark.parametrize(
    ("num_running", "limit", "in_waves", "has_failed", "expected"),
    [
        (31, 32, False, False, 33),
        (31, 32, True, False, 0),
        (30, 32, False, False, 34),
        (30, 32, True, False, 2),
        (0, 32, True, False, 32),
        (64, 32, False, False, 0),
        (31, 32, False, True, 1),
        (40, 32, True, True, 0),
        (0, 1, True, False, 1),
        (1, 1, True, False, 0),
    ],
)
def test_admission(num_running, limit, in_waves, has_failed, expected):
    assert num_admitted(num_running, limit, in_waves, has_failed) == expected


def test_waves_keep_most_places_taken():
    """Of responses of random lengths, with requests for all of them."""
    limit, running, steps_with_prompts, taken = 64, [], 0, []
    lengths = iter(1 + (7919 * i) % 97 for i in range(10**6))
    for _ in range(2000):
        new = num_admitted(len(running), limit, True, False)
        running += [next(lengths) for _ in range(new)]
        steps_with_prompts += new > 0
        taken.append(len(running))
        running = [left - 1 for left in running if left > 1]
    assert sum(taken) / len(taken) > 0.94 * limit
    assert steps_with_prompts < 0.4 * 2000


@pytest.fixture
def start_on_a_gpu(configs, monkeypatch):
    """Starts an engine over a vLLM that only notes what it was asked for."""
    vllm_config = engine_config(configs, "vllm")

    def start(num_token_ids=9, enforce_eager=False, has_second_runner=True):
        asked = {}

        def llm(**arguments):
            asked.update(arguments)
            torch.set_num_threads(1)
            made = MagicMock()
            made.llm_engine.vllm_config.use_v2_model_runner = has_second_runner
            return made

        monkeypatch.setattr(vllm, "LLM", llm)
        VllmEngine(
            replace(vllm_config, max_num_seqs=4, enforce_eager=enforce_eager),
            EngineModel(resolve_model_path("embedded:arithmetic_short"), num_token_ids, (0,)),
        )
        return asked

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    return start


def test_a_gpus_worker_leaves_this_process_its_threads(start_on_a_gpu, monkeypatch):
    """vLLM's sets torch to one, with which an offloaded optimizer would step."""
    threads = [7]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    start_on_a_gpu()
    assert threads == [7, 1, 7]


def test_a_graph_for_every_batch_that_decodes(start_on_a_gpu):
    assert start_on_a_gpu()["compilation_config"] == {"max_cudagraph_capture_size": 4}
    assert start_on_a_gpu(enforce_eager=True)["compilation_config"] is None


def test_a_mask_where_the_embedding_is_padded_and_nowhere_else(start_on_a_gpu):
    path = resolve_model_path("embedded:arithmetic_short")
    num_rows = AutoConfig.from_pretrained(path).vocab_size
    assert start_on_a_gpu(num_rows)["logits_processors"] is None
    assert len(start_on_a_gpu(num_rows - 1)["logits_processors"]) == 1


def test_the_first_runner_is_told_of(start_on_a_gpu, caplog):
    start_on_a_gpu()
    assert not caplog.records
    start_on_a_gpu(has_second_runner=False)
    assert "first runner" in caplog.text


@pytest.mark.parametrize("kind", [VllmEngine, EngineProcesses])
def test_an_engine_wakes_after_the_trainer_has_left_it_the_memory(kind, monkeypatch):
    """torch keeps what it has freed, and then no engine has room beside it."""
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    llm = SimpleNamespace(wake_up=lambda: calls.append("wake"))
    kind.wake(SimpleNamespace(_is_asleep=True, _llm=llm, _ask=calls.append))
    assert calls == ["empty", "wake"]
