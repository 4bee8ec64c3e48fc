"""The invariants of sampling on both engines, with the embedded policy on this machine."""

import itertools
import logging
from dataclasses import replace

import pytest
import torch
from support.engines import (
    assert_alike,
    engine_config,
    finish,
    num_ids,
    request,
    run,
    start,
    trainer_logprobs,
)
from support.grids import grid

from vineppo.distributed import init_distributed
from vineppo.models import named_weights
from vineppo.recipes.engine_processes import EngineProcesses
from vineppo.recipes.transformers_engine import TransformersEngine


@pytest.fixture(scope="module", params=grid("vllm", "transformers", slow=["vllm_processes"]))
def config(configs, request):
    return engine_config(configs, request.param)


@pytest.fixture(scope="module")
def engine(config, loaded):
    init_distributed()
    return start(config, loaded)


@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_logprobs_are_processed_and_agree_with_the_trainer(engine, loaded, prompt, temperature):
    (found,) = run(engine, [request(prompt, 1, temperature=temperature)])
    expected = trainer_logprobs(loaded, prompt, found, temperature)
    torch.testing.assert_close(torch.tensor(found.logprobs_T), expected, atol=1e-4, rtol=0)


def test_seeds_make_samples(engine, prompt):
    requests = [request(prompt, seed, temperature=1.5) for seed in (1, 2, 3, 1)]
    first = run(engine, requests)
    engine.clear_cache()
    for one, other in zip(run(engine, requests), first, strict=True):
        assert_alike(one, other)
    assert_alike(first[0], first[3])
    assert len({completion.token_ids for completion in first}) == 3


def test_end_token_is_part_of_the_response_and_truncation_adds_none(engine, loaded, prompt):
    whole, cut = run(engine, [request(prompt, 1), request(prompt, 1, max_tokens=5)])
    assert whole.finish_reason == "stop"
    assert whole.token_ids[-1] == loaded.tokenizer.eos_token_id
    assert cut.finish_reason == "length"
    assert cut.token_ids == whole.token_ids[:5]
    assert len(cut.logprobs_T) == 5


@pytest.mark.parametrize(("length", "max_tokens"), [(0, 5), (None, 5), (2, 0)])
def test_requests_that_cannot_run_are_refused(engine, config, length, max_tokens):
    limit = config.max_model_len
    prefix_ids = (3,) * (limit if length is None else length)
    with pytest.raises(ValueError, match=f"a prefix must have 1 to {limit - 1} tokens"):
        engine.submit(request(prefix_ids, 1, max_tokens=max_tokens), lambda _: None)
    assert engine.num_unfinished == 0


def test_requests_of_every_kind_run_beside_each_other(engine, prompt):
    """Each as it runs alone, whichever of its kind came first."""
    one = request(prompt, 1)
    kinds = [
        one,
        replace(one, temperature=0.0),
        replace(one, temperature=1.5, top_p=0.5),
        replace(one, with_logprobs=False),
        replace(one, stop_ids=(run(engine, [one])[0].token_ids[2],)),
    ]
    requests = [replace(kind, seed=seed, max_tokens=7 * seed) for seed in (1, 2) for kind in kinds]
    together = run(engine, requests)
    for kind, found in zip(requests, together, strict=True):
        engine.clear_cache()
        assert_alike(run(engine, [kind])[0], found)
    assert [bool(found.logprobs_T) for found in together[:5]] == [True, True, True, False, True]
    assert len(together[4].token_ids) <= 3 < len(together[0].token_ids)


def test_padded_ids_are_never_sampled(engine, loaded, prompt):
    """The two ids that are cut off are the newline and `####`, which every answer has."""
    hot = [request(prompt, seed, temperature=2.0, max_tokens=64) for seed in range(40)]
    sampled = {i for completion in run(engine, hot) for i in completion.token_ids}
    assert len(sampled) > 10
    assert max(sampled) < num_ids(loaded)


def test_continuations_of_one_state_hit_the_prefix_cache(engine, prompt):
    engine.clear_cache()
    before = engine.counts
    state = (*prompt, *run(engine, [request(prompt, 1, temperature=0.0)])[0].token_ids[:24])
    run(engine, [request(state, seed, with_logprobs=False) for seed in range(8)])
    cached = engine.counts.cached_tokens - before.cached_tokens
    assert len(state) > 32
    assert cached >= 7 * 32  # all but the first find the first block


def test_new_weights_are_sampled_from_at_once(engine, loaded, prompt):
    """Also where the old weights' prefix is cached: a stale block would show in the gap."""
    prompt = prompt * (64 // len(prompt) + 1)  # more than one block of the cache
    before = run(engine, [request(prompt, 1)])[0]
    original = {name: w.detach().clone() for name, w in loaded.model.named_parameters()}
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in loaded.model.parameters():
            weight.add_(0.02 * torch.randn_like(weight))
    engine.load_weights(named_weights(loaded.model))
    after = run(engine, [request(prompt, 1)])[0]
    expected = trainer_logprobs(loaded, prompt, after, 1.0)
    torch.testing.assert_close(torch.tensor(after.logprobs_T), expected, atol=1e-4, rtol=0)
    assert after.logprobs_T != before.logprobs_T
    loaded.model.load_state_dict(original, strict=False)
    engine.load_weights(named_weights(loaded.model))
    assert run(engine, [request(prompt, 1)])[0].token_ids == before.token_ids


def test_the_allocations_that_vllm_is_spared_change_no_sample(engine, prompt, monkeypatch):
    if not hasattr(engine, "_core"):
        pytest.skip("what vLLM does in this process")
    requests = [request(prompt, seed, temperature=1.5) for seed in range(20)]
    engine.clear_cache()
    found = run(engine, requests)
    engine.clear_cache()
    manager = engine._core.engine_core.scheduler.kv_cache_manager
    assert vars(manager)["allocate_slots"]
    monkeypatch.delattr(manager, "allocate_slots")
    assert run(engine, requests) == found
    (group,) = manager.coordinator.single_type_managers
    assert max(len(prompt) + len(completion.token_ids) for completion in found) > group.block_size


def test_an_engine_that_sleeps_forgets_what_runs_and_samples_the_same_afterwards(engine, prompt):
    (expected,) = run(engine, [request(prompt, 1)])
    found = []
    for seed in range(100):
        engine.submit(request(prompt, seed), found.append)
    engine.step()
    engine.sleep()
    assert engine.num_unfinished == 0
    engine.wake()
    before = len(found)
    assert_alike(run(engine, [request(prompt, 1)])[0], expected)
    assert len(found) == before


def fail(monkeypatch, engine, calls):
    """The model's forward pass runs out of memory at these of its calls, from 1."""
    if isinstance(engine, EngineProcesses):
        pytest.skip("what fails is in another process")
    if isinstance(engine, TransformersEngine):
        model = engine._model
    else:
        core = engine._core.engine_core
        model = core.model_executor.driver_worker.worker.model_runner.model
    forward, counted = model.forward, itertools.count(1)

    def flawed(*args, **kwargs):
        if next(counted) in calls:
            raise torch.OutOfMemoryError("no memory for this")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", flawed)


def test_an_engine_that_fails_loses_nothing(engine, prompt, monkeypatch, caplog):
    """Twice, with responses of many lengths on their way: the same samples, once each."""
    caplog.set_level(logging.WARNING, "vineppo")
    prefixes = [prompt, (*prompt, *prompt[1:])]
    requests = [request(prefixes[seed % 2], seed, max_tokens=3 + seed) for seed in range(40)]
    expected = run(engine, requests)
    engine.clear_cache()
    fail(monkeypatch, engine, {2, 25})
    most, before = engine._concurrency.limit, engine.counts.num_retries
    found = []
    for index, one in enumerate(requests):
        engine.submit(one, lambda completion, index=index: found.append((index, completion)))
    finish(engine)
    assert sorted(index for index, _ in found) == list(range(40))
    for index, completion in found:
        assert_alike(completion, expected[index])
    assert engine.counts.num_retries - before == 2
    first, second = [record.getMessage() for record in caplog.records]
    assert first == (
        "the engine failed (OutOfMemoryError: no memory for this): 40 requests start over, at most "
        "20 at once"
    )
    limit = engine._concurrency.limit
    assert second.endswith(f"at most {limit} at once")
    assert 1 <= limit <= 10
    engine.clear_cache()
    assert engine._concurrency.limit == most


def test_what_a_callback_raises_is_not_tried_again(engine, prompt):
    before = engine.counts.num_retries

    def done(_):
        raise ValueError("ours")

    engine.submit(request(prompt, 1, max_tokens=1), done)
    with pytest.raises(ValueError, match="ours"):
        finish(engine)
    assert (engine.num_unfinished, engine.counts.num_retries) == (0, before)


def test_an_engine_that_stalls_is_noticed(engine, prompt, monkeypatch):
    """vLLM's step comes back, and nothing is ever done; the other engine cannot."""
    if not hasattr(engine, "_core"):
        pytest.skip("rows get a token in every step, or in another process")
    (expected,) = run(engine, [request(prompt, 1)])
    from vllm.v1.engine import EngineCoreOutputs

    step, left = engine._core.get_output, [engine._concurrency._most_idle_steps + 1]

    def stalled():
        left[0] -= 1
        return EngineCoreOutputs() if left[0] >= 0 else step()

    before = engine.counts.num_retries
    monkeypatch.setattr(engine._core, "get_output", stalled)
    assert_alike(run(engine, [request(prompt, 1)])[0], expected)
    assert engine.counts.num_retries == before + 1
    engine.clear_cache()
