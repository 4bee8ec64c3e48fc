"""Who of several engines gets what, what they say, and what their end does.

`tests/engine/test_engine_invariants.py` runs vLLM in processes; here the engines are threads.
"""

import logging
import multiprocessing
import signal
import threading
from contextlib import suppress
from types import SimpleNamespace

import pytest
from support.engines import engine_config, finish, request, run

from vineppo.engine import Completion, EngineCounts
from vineppo.errors import UserError
from vineppo.recipes import engine_processes
from vineppo.recipes.engine_processes import EngineProcesses, _environment, serve

PROMPT = (1, 2, 3)


class Counting:
    """Finishes a request after a number of steps that its seed decides; refuses one maximum."""

    cache_bytes = None

    def __init__(self, config, *_):
        if config.max_num_seqs == 5:
            raise UserError("config: engine.max_num_seqs must not be 5")
        self.running, self.counts = [], EngineCounts(0, 0, 0)

    @property
    def num_unfinished(self):
        return len(self.running)

    def submit(self, one, done):
        self.running.append([1 + one.seed % 7, one, done])

    def step(self):
        for entry in self.running:
            entry[0] -= 1
        ended = [entry for entry in self.running if entry[0] == 0]
        self.running = [entry for entry in self.running if entry[0]]
        for _, one, done in ended:
            num = 1 + one.seed % 7
            self.counts = EngineCounts(0, 0, self.counts.sampled_tokens + num)
            done(Completion((one.seed,) * num, (-1.0,) * num, "length"))

    def clear_cache(self):
        logging.getLogger("vineppo.engine").warning("cleared")


class Thread:
    """In place of a process."""

    def __init__(self, connection):
        self.connection, self.status = connection, None
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with suppress(EOFError, OSError):
            serve(self.connection, Counting)
        self.connection.close()

    def wait(self, _=None):
        self.thread.join(10)
        self.status = self.status or 0
        return self.status


@pytest.fixture
def make(configs, monkeypatch):
    """The engines of a config with so many sequences each."""
    handlers = list(logging.getLogger("vineppo").handlers)

    def start_child(*_, **__):
        here, there = multiprocessing.Pipe()
        return Thread(there), here

    monkeypatch.setattr(engine_processes, "start_child", start_child)
    config = engine_config(configs, "vllm_processes")
    made = []

    def of(max_num_seqs=16):
        keys = vars(config) | {"max_num_seqs": max_num_seqs}
        made.append(EngineProcesses(type(config)(**keys), SimpleNamespace()))
        return made[-1]

    yield of
    for engine in made:
        engine.end()
    logging.getLogger("vineppo").handlers = handlers


def shares(engine):
    """Tokens that each of them has sampled."""
    return [process.counts.sampled_tokens for process in engine._processes]


def test_each_gets_the_same_again(make):
    """Requests that come in waves, from callbacks; a repeated run deals alike, and evenly."""

    def dealt():
        engine, found = make(), {}

        def done(number, completion):
            found[number] = completion
            if number < 60:
                submit(number + 40)

        def submit(number):
            prefix = (*PROMPT, 3 + number % 5)
            engine.submit(request(prefix, number), lambda one: done(number, one))

        for number in range(40):
            submit(number)
        finish(engine)
        return found, shares(engine)

    (found, mine), (again, other) = dealt(), dealt()
    assert sorted(found) == list(range(100))
    assert found == again
    assert mine == other
    assert min(mine) > 0.6 * max(mine)


def test_what_goes_on_from_a_prefix_stays_with_it(make):
    """All states of a response are in one engine's cache, also where engines are full."""
    engine = make()
    states = [request((*PROMPT, *range(end)), seed) for seed, end in enumerate((5, 5, 9, 14))]
    run(engine, states)
    assert sorted(shares(engine))[0] == 0 < max(shares(engine))
    homes = {}
    for state in range(60):
        for seed in range(9):
            engine.submit(request((*PROMPT, state), seed), lambda _: None)
    while engine.num_unfinished:
        engine.step()
        for index, process in enumerate(engine._processes):
            assert len(process.running) < 2 * 16 + 9
            for one, _ in process.running.values():
                homes.setdefault(one.prefix_ids, set()).add(index)
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


def test_failures_warnings_and_refusals_are_said_here(make, caplog):
    engine = make()
    engine.clear_cache()
    assert "engine 0 of 2: cleared" in caplog.text
    for process in engine._processes:
        process.tell("nothing_of_that_name")
        with pytest.raises(RuntimeError, match="has no attribute 'nothing_of_that_name'"):
            process.answer()
    assert len(run(engine, [request(PROMPT, 1)])) == 1  # it goes on
    with pytest.raises(UserError, match=r"^config: engine\.max_num_seqs must not be 5$"):
        make(5)


def test_an_engine_that_ends_is_said(make):
    engine = make()
    for seed in range(2000):  # more than are done by the steps that were told ahead
        engine.submit(request((*PROMPT, seed), seed), lambda _: None)
    engine.step()
    ended = engine._processes[1]
    ended.process.status = -signal.SIGKILL
    ended.hang_up()
    with pytest.raises(RuntimeError, match=r"engine 1 of 2 has ended \(exit status -9\)"):
        finish(engine)
