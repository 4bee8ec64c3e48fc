"""Worker processes that evaluate a function under hard limits of processor time and memory.

Algebra on a model's output (`10^{10^{10}}`) hangs, and neither a signal handler nor an exception is
sure to end it: C code does not look, and the libraries catch exceptions on the way. The only limit
that holds is to kill the process. Each worker is owned by one thread that starts it, talks to it
alone over its own pipe, and replaces it: workers share nothing, so killing one cannot harm or stall
the others, and a worker that cannot start fails its job, whatever waits in the queue.

The workers are fresh interpreters (`python -m vineppo.tasks.worker_pool`), neither forked nor
spawned by multiprocessing: the first would copy a process with CUDA and threads, the second would
import the user's main script again. Each imports math-verify once and forks a child that evaluates,
so that a child that was killed is replaced in milliseconds.
"""

import logging
import multiprocessing
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from vineppo.parent_death import die_with_parent
from vineppo.tasks.equivalence import warm_up

# Time for the imports from a slow shared disk; a worker that needs longer is broken.
_START_LIMIT_S = 300.0
# Elapsed time for a unit of processor time: ends what sleeps, and lets a busy machine finish.
_ELAPSED_PER_CPU = 10.0
# What an evaluation may allocate beside the imports.
_MEMORY_LIMIT_BYTES = 2 * 1024**3

_Jobs = queue.SimpleQueue[tuple[Future[Any], tuple[Any, ...]] | None]


class WorkerDiedError(Exception):
    """The worker's process ended during the evaluation."""


class EvaluationError(Exception):
    """The function raised; the message is the worker's traceback."""


class PoolClosedError(Exception):
    """The pool was closed before the evaluation ended."""


class WorkerPool:
    """`num_workers` processes that evaluate `function`, a module-level function.

    With `quick_limit_s`, an evaluation that takes longer is given up and done again by as many
    other workers: one that hangs does not keep the next waiting until `time_limit_s`.
    Nothing is started before it is needed. A worker that dies while idle is replaced. To be used
    from one thread; the futures are resolved in the pool's own.

    >>> pool = WorkerPool(pow, num_workers=1, time_limit_s=5.0)
    >>> pool.submit(2, 10).result()
    1024
    >>> pool.close()
    """

    def __init__(
        self,
        function: Callable[..., Any],
        num_workers: int,
        time_limit_s: float,
        quick_limit_s: float | None = None,
    ) -> None:
        self._function = function
        # Closing the writer makes the reader ready for every thread that waits on it.
        self._closing_reader, self._closing_writer = multiprocessing.Pipe(duplex=False)
        slow: _Jobs = queue.SimpleQueue()
        self._jobs: _Jobs = slow if quick_limit_s is None else queue.SimpleQueue()
        lanes: list[tuple[_Jobs, float, _Jobs | None]] = [(slow, time_limit_s, None)]
        if quick_limit_s is not None:
            lanes.insert(0, (self._jobs, quick_limit_s, slow))
        # The quick lane's threads come first, and end first: their jobs may yet go to the slow one.
        self._threads = [
            # Daemons: a pool that nobody closed must not keep the interpreter from ending.
            (lane[0], threading.Thread(target=self._serve, args=lane, daemon=True))
            for lane in lanes
            for _ in range(num_workers)
        ]
        self._is_started = False

    def submit(self, *args: Any) -> Future[Any]:
        """The function's value at `args`.

        The future raises TimeoutError past the time limit, which counts the processor's time from
        when a warm worker gets the arguments (or ten times as much by the clock);
        WorkerDiedError; EvaluationError, also past the memory limit; PoolClosedError; and
        RuntimeError when the worker could not be started.
        """
        if self._closing_writer.closed:
            raise PoolClosedError("the pool is closed")
        if not self._is_started:
            self._is_started = True
            for _, thread in self._threads:
                thread.start()
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._jobs.put((future, args))
        return future

    def close(self) -> None:
        """End the workers now; evaluations that wait or run raise PoolClosedError."""
        self._closing_writer.close()
        if not self._is_started:
            return
        for lane in dict.fromkeys(jobs for jobs, _ in self._threads):
            threads = [thread for jobs, thread in self._threads if jobs is lane]
            for _ in threads:
                lane.put(None)
            for thread in threads:
                thread.join()

    def _serve(self, jobs: _Jobs, time_limit_s: float, slow: _Jobs | None) -> None:
        """One thread's life: take a job, make sure of a worker, resolve the job's future."""
        worker: _Worker | None = None
        while (job := jobs.get()) is not None:
            future, args = job
            try:
                if self._closing_writer.closed:
                    raise PoolClosedError("the pool was closed")
                if worker is None or not worker.is_alive():
                    worker = _Worker(self._function, self._closing_reader)
                value = worker.evaluate(args, time_limit_s)
            except Exception as error:
                if slow is not None and isinstance(error, TimeoutError):
                    slow.put(job)
                else:
                    future.set_exception(error)
            else:
                future.set_result(value)
        if worker is not None:
            worker.kill()


class _Worker:
    """One warm process with its child, and the pipe to them."""

    def __init__(self, function: Callable[..., Any], closing_reader: Connection) -> None:
        self._closing_reader = closing_reader
        self._connection, remote = multiprocessing.Pipe()
        # -P: a file in the user's directory must not shadow a module.
        command = [sys.executable, "-P", "-W", "ignore", "-m", "vineppo.tasks.worker_pool"]
        with remote:
            self._process = subprocess.Popen(
                [*command, str(remote.fileno()), str(os.getpid())],
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                process_group=0,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
                },
            )
        self._is_ready = False
        try:
            self._send(function)
            self._await_child()
        except PoolClosedError:
            raise
        except Exception as error:
            self.kill()
            raise RuntimeError(f"a grading worker did not start: {error}") from error

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def evaluate(self, args: tuple[Any, ...], time_limit_s: float) -> Any:
        """The function's value; raises as the future of `WorkerPool.submit`."""
        self._await_child()
        self._send((time_limit_s, args))
        self._is_ready = False
        kind, result = self._receive(time_limit_s * _ELAPSED_PER_CPU)
        self._is_ready = kind in ("value", "error")
        if kind == "error":
            raise EvaluationError(result)
        if kind == "killed" and result == signal.SIGPROF:
            raise TimeoutError(f"no answer within {time_limit_s} s")
        if kind == "killed":
            raise WorkerDiedError(f"signal {result}")
        return result

    def kill(self) -> None:
        self._connection.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _await_child(self) -> None:
        """Until a child is ready; one that was killed while idle has been replaced."""
        while not self._is_ready or self._connection.poll():
            self._is_ready = self._receive(_START_LIMIT_S)[0] == "ready"

    def _send(self, message: object) -> None:
        try:
            self._connection.send(message)
        except ConnectionError as error:
            self._raise_died(error)

    def _receive(self, time_limit_s: float) -> tuple[str, Any]:
        """What the child or its parent says; whatever prevents that ends both."""
        ready = wait([self._connection, self._closing_reader], time_limit_s)
        if self._closing_reader in ready:
            self.kill()
            raise PoolClosedError("the pool was closed")
        if not ready:
            self.kill()
            raise TimeoutError(f"no answer within {time_limit_s} s")
        try:
            message: tuple[str, Any] = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            self._raise_died(error)
        return message

    def _raise_died(self, error: Exception) -> NoReturn:
        self.kill()
        raise WorkerDiedError(f"exit status {self._process.returncode}") from error


def main(fd: int, parent_pid: int) -> None:
    """The worker: receive the function, get warm, then keep a child that evaluates."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # The closed pipe alone would not reach a process that hangs in C code.
    die_with_parent()
    if os.getppid() != parent_pid:  # it ended before that took effect
        return
    logging.disable(logging.WARNING)  # math-verify warns in every process that it has no timeout
    with Connection(fd) as connection:
        try:
            function = connection.recv()
        except EOFError:
            return
        warm_up()
        while True:
            child = os.fork()
            if child == 0:
                _answer_from(connection, function)
                return
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                sys.exit(os.waitstatus_to_exitcode(status))
            connection.send(("killed", os.WTERMSIG(status)))


def _answer_from(connection: Connection, function: Callable[..., Any]) -> None:
    """The child: say when ready, then answer arguments with values until the end."""
    die_with_parent()
    if (load := getattr(function, "load", None)) is not None:
        load()  # a user's file, whose imports are no part of the limits, nor what its models need
    else:
        _limit_memory()
    try:
        connection.send(("ready", None))
        while True:
            time_limit_s, args = connection.recv()
            # SIGPROF kills, unless a handler is set, and counts the processor's time.
            signal.setitimer(signal.ITIMER_PROF, time_limit_s)
            try:
                answer = "value", function(*args)
            except BaseException:  # a SystemExit is the function's failure too, not the child's end
                answer = "error", traceback.format_exc(limit=-5)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send(answer)
    except (EOFError, ConnectionError):
        return  # the parent is gone


def _limit_memory() -> None:
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = used + _MEMORY_LIMIT_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
