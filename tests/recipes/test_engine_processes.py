"""Engines in processes of their own: who gets what, what they say, and what their end does."""

import logging
import multiprocessing
import signal
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from support.engines import assert_alike, engine_config, finish, request, run, start

from vineppo.distributed import init_distributed
from vineppo.errors import UserError
from vineppo.recipes.engine_processes import _environment, serve


@pytest.fixture(scope="module")
def config(configs):
    return replace(
        engine_config(configs, "vllm_processes"), max_num_seqs=16, max_num_batched_tokens=512
    )


@pytest.fixture(scope="module")
def engine(config, loaded):
    init_distributed()
    return start(config, loaded)


def shares(engine):
    """Tokens that each of them has sampled."""
    return [process.counts.sampled_tokens for process in engine._processes]


def test_each_gets_the_same_again(engine, prompt):
    """Requests that come in waves, from callbacks; a repeated run deals alike, and evenly."""

    def dealt():
        engine.clear_cache()
        before, found = shares(engine), {}

        def done(number, completion):
            found[number] = completion
            if number < 60:
                submit(number + 40)

        def submit(number):
            own = (*prompt, 3 + number % 5)
            engine.submit(request(own, number), lambda one: done(number, one))

        for number in range(40):
            submit(number)
        finish(engine)
        return found, [now - then for now, then in zip(shares(engine), before, strict=True)]

    (found, mine), (again, other) = dealt(), dealt()
    assert sorted(found) == list(range(100))
    for number in found:
        assert_alike(found[number], again[number])
    assert mine == other
    assert min(mine) > 0.6 * max(mine)


def test_what_goes_on_from_a_prefix_stays_with_it(engine, prompt):
    """All states of a response are in one engine's cache."""
    (whole,) = run(engine, [request(prompt, 1)])
    engine.clear_cache()
    before = shares(engine)
    ends = (5, 5, 9, 14)
    states = [(*prompt, *whole.token_ids[:end]) for end in ends]
    run(engine, [request(state, seed) for seed, state in enumerate(states)])
    grown = [now - then for now, then in zip(shares(engine), before, strict=True)]
    assert sorted(grown)[0] == 0 < max(grown)


def test_samples_of_a_prefix_stay_together_where_engines_are_full(engine, prompt):
    """Nine of each of sixty states, in engines that have room for 32 at a time."""
    engine.clear_cache()
    found = []
    for state in range(60):
        prefix = (*prompt, 3 + state % 15, 3 + state // 15)
        for seed in range(9):
            engine.submit(request(prefix, seed, max_tokens=4 + seed), found.append)
    homes = {}
    while engine.num_unfinished:
        engine.step()
        for index, process in enumerate(engine._processes):
            assert len(process.running) < 2 * 16 + 9
            for one, _ in process.running.values():
                homes.setdefault(one.prefix_ids, set()).add(index)
    assert len(found) == 9 * 60
    assert {len(indices) for indices in homes.values()} == {1}


def test_an_engine_is_no_rank_and_has_its_ranks_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    for name, text in {"RANK": "3", "LOCAL_RANK": "1", "MASTER_ADDR": "here"}.items():
        monkeypatch.setenv(name, text)
    for visible, expected in ((None, "1"), ("4,GPU-a5", "GPU-a5")):
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        environment = _environment()
        assert environment["CUDA_VISIBLE_DEVICES"] == expected
        assert not {"RANK", "LOCAL_RANK", "MASTER_ADDR"} & environment.keys()


def test_what_fails_there_is_said_here(engine, prompt):
    engine.clear_cache()  # so that no answer is to come
    for process in engine._processes:
        process.tell("nothing_of_that_name")
        with pytest.raises(RuntimeError, match="has no attribute 'nothing_of_that_name'"):
            process.answer()
    assert len(run(engine, [request(prompt, 1)])) == 1  # it goes on


def test_warnings_and_refusals_are_sent_along():
    class Engine:
        cache_bytes = None

        def __init__(self, block_size):
            if block_size % 32:
                raise UserError("config: engine.block_size must be a multiple of 32")

        def sleep(self):
            logging.getLogger("vineppo.engine").warning("tired")

    here, there = multiprocessing.Pipe()

    def serve_all():
        with suppress(EOFError):
            serve(there, Engine)

    thread = threading.Thread(target=serve_all, daemon=True)
    thread.start()
    with here:
        for message in ((16,), (32,), ("sleep",)):
            here.send(message)
        (refused, _, error), *others = [here.recv() for _ in range(3)]
    thread.join()
    logging.getLogger("vineppo").handlers.pop()
    assert (refused, str(error)) == (
        "error",
        "config: engine.block_size must be a multiple of 32",
    )
    assert isinstance(error, UserError)
    assert others == [("done", [], None), ("done", ["tired"], None)]


def test_an_engine_that_ends_is_said(engine, prompt):
    """The last one, as it is the end of them all."""
    for seed in range(40):
        engine.submit(request(prompt, seed), lambda _: None)
    engine.step()
    processes = [process.process for process in engine._processes]
    processes[1].send_signal(signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"engine 1 of 2 has ended \(exit status -9\)"):
        finish(engine)
    engine.end()
    assert processes[0].poll() is not None
