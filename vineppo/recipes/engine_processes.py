"""Several engines on one device, each in a separate process.

vLLM's scheduler takes tens of microseconds of one thread for every sequence and step, several times
what a GPU takes to compute it where a model is small. Processes do that work side by side, and
leave this one's interpreter to text, grades and the reference's passes.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

import torch
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor

from vineppo.config.schema.scalars import Count
from vineppo.distributed import bind_cores, local_rank
from vineppo.engine import (
    Completion,
    Engine,
    EngineCounts,
    EngineModel,
    SampleRequest,
    check_request,
)
from vineppo.engine.vllm_config import VllmConfig, check_installed
from vineppo.errors import UserError
from vineppo.parent_death import die_with_parent, start_child

STEPS_AHEAD = 16  # that engines are told to make before the first one's answers are taken
DEVICE = 6  # the place of the GPU's number in the handle of a tensor
END_LIMIT_S = 5.0  # for an engine to take down what it has made
# Variables of a launcher begin with these: an engine's process is no rank.
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_")

logger = logging.getLogger(__name__)

T = TypeVar("T")
_Done = Callable[[Completion], None]


@dataclass(frozen=True)
class ProcessesConfig(VllmConfig):
    """vLLM's keys, of each engine; of `gpu_memory_utilization` each gets an equal part."""

    num_processes: Count = 4  # of a rank, with an engine each; 1: the trainer's own

    def build(self, model: EngineModel) -> Engine:
        if self.num_processes == 1:
            return super().build(model)
        check_installed(self.kind)
        return EngineProcesses(self, model)


class _Process:
    """An engine's process: the pipe to it, and what it has been given and has not finished."""

    def __init__(self, index: int, count: int) -> None:
        self._name = f"engine {index} of {count}"
        self.running: dict[int, tuple[SampleRequest, _Done]] = {}
        self.counts = EngineCounts(0, 0, 0)
        self.process, self._connection = start_child(
            "vineppo.recipes.engine_processes", index, count, environment=_environment()
        )
        # Read at once: an engine that cannot answer would not take what it is told either.
        self._answers: SimpleQueue[Any] = SimpleQueue()
        arguments = self._connection, self._answers
        threading.Thread(target=_read, args=arguments, daemon=True).start()

    def tell(self, *message: Any) -> None:
        with suppress(ConnectionError):  # `answer` says it
            self._connection.send(message)

    def hang_up(self) -> None:
        """`_read` waits in the connection, which closing it would not end."""
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def answer(self) -> Any:
        """That to its oldest message without one; what the engine has logged is logged here."""
        found = self._answers.get()
        if found is None:
            self._answers.put(None)  # there is none to later messages either
            raise RuntimeError(f"{self._name} has ended (exit status {self.process.wait()})")
        kind, logged, answer = found
        for line in logged:
            logger.warning(f"{self._name}: {line}")
        if kind == "error":
            raise answer if isinstance(answer, UserError) else RuntimeError(answer)
        return answer


def _read(connection: Connection, answers: "SimpleQueue[Any]") -> None:
    with suppress(EOFError, OSError):
        try:
            while True:
                answers.put(connection.recv())
        finally:
            answers.put(None)


def _environment() -> dict[str, str]:
    """For an engine's process: without a launcher's rank, and with this rank's GPU alone."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHER)}
    if torch.cuda.is_available():
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = visible.split(",") if visible else [str(n) for n in range(local_rank() + 1)]
        environment["CUDA_VISIBLE_DEVICES"] = devices[local_rank()]
    return environment


class EngineProcesses:
    """`Engine` of `config.num_processes` engines, which share the GPU's memory and what is asked.

    All make their steps in turn, by number and not by time. In a step of this engine each is told
    to make one more, with what it starts before it. The answers to the first of `STEPS_AHEAD` such
    steps are taken. So none waits for a slower one unless that is far behind, and a repeated run
    asks the same of the same engine after the same step. The answer to a request between steps
    (`sleep` and the like) comes when all of them are made.

    A request goes to the engine that has least to do. If its prefix equals or continues the prefix
    of the request before it, it goes to that request's engine, which has it in its cache. An engine
    has as many again as run at once, as it is known late that some have finished.
    """

    ranks_a_replica = 1

    def __init__(self, config: ProcessesConfig, model: EngineModel) -> None:
        self._max_model_len = config.max_model_len
        self._most = 2 * config.max_num_seqs
        self._waiting: deque[tuple[SampleRequest, _Done]] = deque()
        self._num_submitted = 0
        self._last: tuple[int, tuple[int, ...]] = 0, ()  # the engine and prefix of a request
        self._num_told = 0  # steps whose answers are to come
        self._finished: deque[tuple[_Done, Completion]] = deque()
        count = config.num_processes
        share = config.gpu_memory_utilization / count
        each = replace(config, num_processes=1, gpu_memory_utilization=share)
        self._processes = [_Process(index, count) for index in range(count)]
        self.end = weakref.finalize(self, _end, self._processes)
        # On a GPU the first finds out how much memory weights and a step leave to the cache.
        # Others that start at the same time would disturb this.
        num_first = 1 if torch.cuda.is_available() else count
        cache_bytes = self._told(self._processes[:num_first], each, model, None)[0]
        self._told(self._processes[num_first:], each, model, cache_bytes)

    @staticmethod
    def _told(processes: list[_Process], *message: Any) -> list[Any]:
        for process in processes:
            process.tell(*message)
        return [process.answer() for process in processes]

    def submit(self, request: SampleRequest, done: _Done) -> None:
        check_request(request, self._max_model_len)
        self._waiting.append((request, done))

    def step(self) -> None:
        while self._num_told < STEPS_AHEAD:
            self._tell_step()
        self._take_step()
        while self._finished:
            done, completion = self._finished.popleft()
            done(completion)

    def _tell_step(self) -> None:
        self._num_told += 1
        started = self._deal()
        for process, requests in zip(self._processes, started, strict=True):
            process.tell("step", requests)

    def _deal(self) -> list[list[tuple[int, SampleRequest]]]:
        """The requests that every process starts, with their ids."""
        started: list[list[tuple[int, SampleRequest]]] = [[] for _ in self._processes]
        while self._waiting:
            request, (index, before) = self._waiting[0][0], self._last
            loads = [len(process.running) for process in self._processes]
            goes_on = before and request.prefix_ids[: len(before)] == before
            is_same = goes_on and len(request.prefix_ids) == len(before)
            if not is_same and not (goes_on and loads[index] < self._most):
                index = loads.index(min(loads))
                if loads[index] >= self._most:
                    break
            self._last = index, request.prefix_ids
            self._num_submitted += 1
            self._processes[index].running[self._num_submitted] = self._waiting.popleft()
            started[index].append((self._num_submitted, request))
        return started

    def _take_step(self) -> None:
        self._num_told -= 1
        for process in self._processes:
            finished, process.counts = process.answer()
            for number, completion in finished:
                _, done = process.running.pop(number)
                self._finished.append((done, completion))

    def _ask(self, name: str, *arguments: Any) -> list[Any]:
        """The answer of every engine after all of its steps."""
        self._finish_steps()
        return self._told(self._processes, name, *arguments)

    def _finish_steps(self) -> None:
        while self._num_told:
            self._take_step()

    @property
    def num_unfinished(self) -> int:
        running = sum(len(process.running) for process in self._processes)
        return len(self._waiting) + running + len(self._finished)

    @property
    def counts(self) -> EngineCounts:
        counts = (astuple(process.counts) for process in self._processes)
        return EngineCounts(*map(sum, zip(*counts, strict=True)))

    def load_weights(self, named_weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        assert not self.num_unfinished, "weights must not change while requests run"
        weights = {name: weight.detach() for name, weight in named_weights}
        if torch.cuda.is_available():
            self._share(weights)
            return
        file = os.memfd_create("weights")  # which has no name, and is gone with its last reader
        try:
            with open(file, "wb", closefd=False) as writer:
                torch.save(weights, writer)
            del weights
            self._ask("load_weights", f"/proc/{os.getpid()}/fd/{file}")
        finally:
            os.close(file)
        self._last = 0, ()

    def _share(self, weights: dict[str, torch.Tensor]) -> None:
        """Engines copy the weights from this process's memory on the GPU, by handles."""
        self._finish_steps()
        for process in self._processes:  # a handle each: torch counts who has opened it
            handles = {name: reduce_tensor(weight)[1] for name, weight in weights.items()}
            process.tell("open_weights", handles)
        for process in self._processes:
            process.answer()
        torch.cuda.ipc_collect()
        self._last = 0, ()

    def clear_cache(self) -> None:
        self._ask("clear_cache")
        self._last = 0, ()

    def sleep(self) -> None:
        self._ask("sleep")
        self._waiting.clear()
        self._finished.clear()
        for process in self._processes:
            process.running.clear()

    def wake(self) -> None:
        torch.cuda.empty_cache()  # what this process has freed and keeps, no other can use
        self._ask("wake")


def _end(processes: Sequence[_Process]) -> None:
    """By the ends of the pipes: vLLM takes files away that a killed one would leave."""
    for process in processes:
        process.hang_up()
    limit_s = time.monotonic() + END_LIMIT_S
    for process in processes:
        try:
            process.process.wait(max(limit_s - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.process.kill()
            process.process.wait()


class _Logged(logging.Handler):
    """Keeps what is logged until it is sent."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


def main(fd: int, parent_pid: int, index: int, count: int) -> None:
    """An engine's process: starts it, and answers until the pipe ends."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent()
    if os.getppid() != parent_pid:  # it ended before that took effect
        return
    if not torch.cuda.is_available():
        bind_cores(index, count)
    from vineppo.engine.vllm_engine import VllmEngine  # takes long; the others import meanwhile

    with Connection(fd) as connection, suppress(EOFError, ConnectionError):  # the parent is gone
        serve(connection, VllmEngine)


def serve(connection: Connection, start: Callable[..., Any]) -> None:
    """Starts the engine with what the first message says, and answers every message."""
    logged = _Logged()
    logging.getLogger("vineppo").addHandler(logged)
    served: _Served | None = None
    answer: Any
    while True:
        message = connection.recv()
        kind = "done"
        try:
            if served is None:
                engine = start(*message)
                served, answer = _Served(engine), engine.cache_bytes
            else:
                answer = served.answer(*message)
        except UserError as error:
            kind, answer = "error", error
        except Exception:
            kind, answer = "error", traceback.format_exc()
        connection.send((kind, logged.take(), answer))


class _Served:
    """An engine, by messages."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._finished: list[tuple[int, Completion]] = []

    def answer(self, name: str, *arguments: Any) -> Any:
        special = {
            "step": self._step,
            "load_weights": self._load_weights,
            "open_weights": self._open_weights,
        }
        return special.get(name, getattr(self._engine, name))(*arguments)

    def _step(self, started: Iterable[tuple[int, SampleRequest]]) -> Any:
        for number, request in started:
            self._engine.submit(request, partial(self._keep, number))
        if self._engine.num_unfinished:
            self._engine.step()
        finished, self._finished = self._finished, []
        return finished, self._engine.counts

    def _load_weights(self, path: str) -> None:
        self._engine.load_weights(torch.load(path, mmap=True, weights_only=True).items())

    def _open_weights(self, handles: dict[str, tuple[Any, ...]]) -> None:
        opened = ((name, _opened(handle)) for name, handle in handles.items())
        self._engine.load_weights(opened)

    def _keep(self, number: int, completion: Completion) -> None:
        self._finished.append((number, completion))


def _opened(handle: tuple[Any, ...]) -> torch.Tensor:
    """The sender's tensor; this process sees one GPU, whatever its number is for the sender."""
    here = list(handle)
    here[DEVICE] = 0
    return rebuild_cuda_tensor(*here)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
