"""Worker processes that evaluate a function under a hard time limit.

Algebra on a model's output (`10^{10^{10}}`) hangs, and neither a signal handler nor an exception is
sure to end it: C code does not look, and the libraries catch exceptions on the way. The only limit
that holds is to kill the process. Each worker is owned by one thread that starts it, talks to it
alone over its own pipe, and replaces it: workers share nothing, so killing one cannot harm or stall
the others, and a worker that cannot start fails its job, whatever waits in the queue.

The workers are fresh interpreters (`python -m vineppo.tasks.worker`), neither forked nor spawned by
multiprocessing: the first would copy a process with CUDA and threads, the second would import the
user's main script again.
"""

import multiprocessing
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection, wait
from typing import Any

# Time for the imports from a slow shared disk; a worker that needs longer is broken.
_START_LIMIT_S = 300.0


class WorkerDiedError(Exception):
    """The worker's process ended during the evaluation."""


class EvaluationError(Exception):
    """The function raised; the message is the worker's traceback."""


class PoolClosedError(Exception):
    """The pool was closed before the evaluation ended."""


class WorkerPool:
    """`num_workers` processes that evaluate `function`, a module-level function.

    Nothing is started before the first `submit`. A worker that dies while idle is replaced. To be
    used from one thread; the futures are resolved in the pool's own.

    >>> pool = WorkerPool(pow, num_workers=1, time_limit_s=5.0)
    >>> pool.submit(2, 10).result()
    1024
    >>> pool.close()
    """

    def __init__(self, function: Callable[..., Any], num_workers: int, time_limit_s: float) -> None:
        self._function = function
        self._time_limit_s = time_limit_s
        self._jobs: queue.SimpleQueue[tuple[Future[Any], tuple[Any, ...]] | None] = (
            queue.SimpleQueue()
        )
        # Closing the writer makes the reader ready for every thread that waits on it.
        self._closing_reader, self._closing_writer = multiprocessing.Pipe(duplex=False)
        self._threads = [
            # Daemons: a pool that nobody closed must not keep the interpreter from ending.
            threading.Thread(target=self._serve, name=f"grading-{i}", daemon=True)
            for i in range(num_workers)
        ]
        self._is_started = False

    def submit(self, *args: Any) -> Future[Any]:
        """The function's value at `args`.

        The future raises TimeoutError past the time limit, which runs from when a warm worker gets
        the arguments; WorkerDiedError; EvaluationError; PoolClosedError; and RuntimeError when the
        worker could not be started.
        """
        if self._closing_writer.closed:
            raise PoolClosedError("the pool is closed")
        if not self._is_started:
            self._is_started = True
            for thread in self._threads:
                thread.start()
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._jobs.put((future, args))
        return future

    def close(self) -> None:
        """End the workers now; evaluations that wait or run raise PoolClosedError."""
        self._closing_writer.close()
        if self._is_started:
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        """One thread's life: take a job, make sure of a worker, resolve the job's future."""
        worker: _Worker | None = None
        while (job := self._jobs.get()) is not None:
            future, args = job
            try:
                if worker is None or not worker.is_alive():
                    worker = _Worker(self._function, self._closing_reader)
                value = worker.evaluate(args, self._time_limit_s)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(value)
        if worker is not None:
            worker.kill()


class _Worker:
    """One warm process and the pipe to it."""

    def __init__(self, function: Callable[..., Any], closing_reader: Connection) -> None:
        self._closing_reader = closing_reader
        self._connection, remote = multiprocessing.Pipe()
        # -P: a file in the user's directory must not shadow a module.
        command = [sys.executable, "-P", "-W", "ignore", "-m", "vineppo.tasks.worker"]
        with remote:
            self._process = subprocess.Popen(
                [*command, str(remote.fileno()), str(os.getpid())],
                pass_fds=[remote.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
                },
            )
        try:
            self._exchange(function, _START_LIMIT_S)
        except PoolClosedError:
            raise
        except Exception as error:
            raise RuntimeError(f"a grading worker did not start: {error}") from error

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def evaluate(self, args: tuple[Any, ...], time_limit_s: float) -> Any:
        """The function's value; after any failure but EvaluationError the process is dead."""
        is_value, result = self._exchange(args, time_limit_s)
        if not is_value:
            raise EvaluationError(result)
        return result

    def kill(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def _exchange(self, message: object, time_limit_s: float) -> Any:
        """Send and receive; whatever prevents the answer ends the process."""
        try:
            self._connection.send(message)
            ready = wait([self._connection, self._closing_reader], time_limit_s)
            if self._closing_reader in ready:
                raise PoolClosedError("the pool was closed")
            if not ready:
                raise TimeoutError(f"no answer within {time_limit_s} s")
            return self._connection.recv()
        except (EOFError, ConnectionError) as error:
            self.kill()
            raise WorkerDiedError(f"exit status {self._process.returncode}") from error
        except Exception:
            self.kill()
            raise
