"""Worker processes that evaluate a function under hard limits of processor time and memory.

Algebra on a model's output (`10^{10^{10}}`) hangs; only killing the process is sure to end it. One
thread owns each worker and replaces it, so that killing one cannot stall the others. Functions run
without files and network (`sandbox.py`), except a user's, which may need them.

The workers are fresh interpreters (`python -m vineppo.tasks.worker_pool`): a fork would copy a
process with CUDA and threads. Each imports math-verify once and forks a child that evaluates, so
that a killed child is replaced in milliseconds. A worker has read texts of the policy, so its owner
does not trust it: what it says is a short line of JSON, and never unpickled.
"""

import gc
import json
import logging
import multiprocessing
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from vineppo.parent_death import die_with_parent, start_child
from vineppo.tasks.equivalence import warm_up
from vineppo.tasks.sandbox import give_up_files_and_network

# Time for the imports from a slow shared disk; a worker that needs longer is broken.
_START_LIMIT_S = 300.0
# Elapsed time for a unit of processor time: ends what sleeps, and lets a busy machine finish.
_ELAPSED_PER_CPU = 10.0
_LEAST_ELAPSED_S = 2.0
# What an evaluation may allocate beside the imports.
_MEMORY_LIMIT_BYTES = 2 * 1024**3
_MAX_REPLY_BYTES = 64 * 1024
_MAX_ERROR_CHARS = 4000

_logger = logging.getLogger(__name__)


class WorkerDiedError(Exception):
    """The worker's process ended during the evaluation."""


class EvaluationError(Exception):
    """The function raised; the message is its exception."""


class PoolClosedError(Exception):
    """The pool was closed before the evaluation ended."""


class WorkerPool:
    """Processes, started when needed, that evaluate a module-level function of a number."""

    def __init__(self, function: Callable[..., Any], num_workers: int, time_limit_s: float) -> None:
        self._function, self._time_limit_s = function, time_limit_s
        self._threads = ThreadPoolExecutor(num_workers)
        self._workers: dict[int, _Worker] = {}  # by the thread that owns it
        # Closing the writer makes the reader ready for every thread that waits on it.
        self._closing_reader, self._closing_writer = multiprocessing.Pipe(duplex=False)

    def submit(self, *args: Any) -> Future[Any]:
        """The function's value at `args`.

        The future raises TimeoutError past the limit of processor time, or ten times as much
        wall-clock time. It raises EvaluationError, also past the memory limit; WorkerDiedError;
        PoolClosedError; and RuntimeError if the worker could not be started.
        """
        return self._threads.submit(self._evaluate, args)

    def close(self) -> None:
        """End the workers now; evaluations that wait or run raise PoolClosedError."""
        self._closing_writer.close()
        self._threads.shutdown()
        for worker in self._workers.values():
            worker.kill()

    def _evaluate(self, args: tuple[Any, ...]) -> Any:
        if self._closing_writer.closed:
            raise PoolClosedError("the pool was closed")
        worker = self._workers.get(threading.get_ident())
        if worker is None or not worker.is_alive():
            worker = _Worker(self._function, self._closing_reader)
            self._workers[threading.get_ident()] = worker
        return worker.evaluate(args, self._time_limit_s)


class _Worker:
    """One warm process with its child, and the pipe to them."""

    def __init__(self, function: Callable[..., Any], closing_reader: Connection) -> None:
        self._closing_reader = closing_reader
        self._process, self._connection = start_child("vineppo.tasks.worker_pool")
        self._is_ready = False
        try:
            self._connection.send(function)
            self._await_child()
        except PoolClosedError:
            raise
        except Exception as error:
            self.kill()
            exited = f"exit status {self._process.returncode}, {error!r}"
            raise RuntimeError(f"a grading worker did not start: {exited}") from error

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def evaluate(self, args: tuple[Any, ...], time_limit_s: float) -> Any:
        """The function's value; raises as the future of `WorkerPool.submit`."""
        try:
            self._await_child()
            self._connection.send((time_limit_s, args))
            kind, result = self._receive(max(time_limit_s * _ELAPSED_PER_CPU, _LEAST_ELAPSED_S))
        except TimeoutError:  # an OSError, but one of ours
            raise
        except (EOFError, OSError) as error:
            self.kill()
            raise WorkerDiedError(f"exit status {self._process.returncode}, {error}") from error
        self._is_ready = kind in ("value", "error")
        if kind == "error":
            raise EvaluationError(result)
        if kind == "killed":
            is_late = result == signal.SIGPROF
            raise (TimeoutError if is_late else WorkerDiedError)(f"signal {result}")
        return result

    def kill(self) -> None:
        self._connection.close()
        if self.is_alive():
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _await_child(self) -> None:
        """Until a child is ready; one that was killed while idle has been replaced."""
        while not self._is_ready or self._connection.poll():
            kind, result = self._receive(_START_LIMIT_S)
            self._is_ready = kind == "ready"
            if self._is_ready and not result:
                _warn_without_filter()

    def _receive(self, time_limit_s: float) -> tuple[str, Any]:
        """A line of the child or its parent: (kind, result); OSError if neither would say it."""
        ready = wait([self._connection, self._closing_reader], time_limit_s)
        if ready == [self._connection]:
            return _parsed(self._connection.recv_bytes(_MAX_REPLY_BYTES))
        self.kill()
        if self._closing_reader in ready:
            raise PoolClosedError("the pool was closed")
        raise TimeoutError(f"no answer within {time_limit_s} s")


def _parsed(reply: bytes) -> tuple[str, Any]:
    try:
        match json.loads(reply):
            case ["value", int() | float() as value] if abs(value) <= sys.float_info.max:
                return "value", value
            case ["error", str() as message]:
                return "error", message
            case [("ready" | "killed") as kind, int() as number]:
                return kind, number
    except (ValueError, RecursionError):
        pass
    raise OSError(f"a worker said {reply[:100]!r}")


@cache  # once in a process
def _warn_without_filter() -> None:
    _logger.warning(
        "this system has no filter of system calls: grading workers keep files and network"
    )


def main(fd: int, parent_pid: int) -> None:
    """The worker: receive the function, get warm, then keep a child that evaluates."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent's to handle
        signal.signal(number, signal.SIG_IGN)
    # The closed pipe alone would not reach a process that hangs in C code.
    die_with_parent()
    if os.getppid() != parent_pid:  # it ended before that took effect
        return
    logging.disable(logging.WARNING)  # math-verify warns in every process that it has no timeout
    with Connection(fd) as connection, suppress(EOFError, ConnectionError):  # the parent is gone
        function = connection.recv()
        if not hasattr(function, "load"):  # a user's may need what is replaced in sympy
            warm_up()
        gc.freeze()  # or each child's collector would copy the pages of what was imported
        while (child := os.fork()) != 0:
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                sys.exit(os.waitstatus_to_exitcode(status))
            _send(connection, "killed", os.WTERMSIG(status))
        _answer_from(connection, function)


def _answer_from(connection: Connection, function: Callable[..., Any]) -> NoReturn:
    """The child: say when ready, then answer arguments with values until the pipe ends."""
    die_with_parent()
    is_confined = True
    if hasattr(function, "load"):
        function.load()  # neither a user's imports nor what its models need is limited
    else:
        _limit_memory()
        is_confined = give_up_files_and_network()
    _send(connection, "ready", is_confined)
    while True:
        time_limit_s, args = connection.recv()
        # SIGPROF kills, unless a handler is set, and counts the processor's time.
        signal.setitimer(signal.ITIMER_PROF, time_limit_s)
        try:
            kind, result = "value", function(*args)
        except BaseException as error:  # a SystemExit is its failure too, not the child's end
            error.__cause__ = error.__context__ = None  # their lines would be read from the sources
            raised = "".join(traceback.format_exception_only(error)).strip()
            kind, result = "error", raised[-_MAX_ERROR_CHARS:]
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(connection, kind, result)


def _send(connection: Connection, kind: str, result: Any) -> None:
    connection.send_bytes(json.dumps([kind, result]).encode())


def _limit_memory() -> None:
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = used + _MEMORY_LIMIT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
