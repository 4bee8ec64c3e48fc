"""Resident processes that run one iteration on command, by lines of JSON. Standard library alone.

The worker says `{"ready": …}` once, and answers every command, `{"has_stops": …,
"is_profiled": …}`, by one message with what an iteration took. Its standard output ends when it has
failed, its standard input when nothing more is wanted. Both environments import this module.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

Message = dict[str, Any]
# After an answer, threads that wait for more work still spin for up to 0.2 s.
SETTLE_S = 0.5
LOG_LINES = 20


class Channel:
    """The worker's end. What libraries print goes to the standard error from now on."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def say(self, message: Message) -> None:
        self._answers.write(json.dumps(message) + "\n")
        self._answers.flush()

    def wait(self) -> Message | None:
        """Blocks, without using a core, until another iteration is wanted; None: no more."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None


class Worker:
    """The benchmark's end. Raises `RuntimeError` with the worker's last lines where it has failed.

    `with Worker("ours", [python, "-m", "benchmarks.trl.ours", "spec.json"], {}) as ours:` starts,
    `ours.ready()` waits until all is loaded, `ours.iterate(has_stops=False)` is an iteration.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._stack = ExitStack()
        self._log = self._stack.enter_context(TemporaryFile("w+", errors="replace"))  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **environment},
            cwd=Path(__file__).parent.parent.parent,
        )

    def ready(self) -> Message:
        """The worker's report of itself, once it has loaded everything."""
        message = self._read()
        assert "ready" in message, f"{self.name} must say that it is ready, got {message}"
        return message["ready"]

    def iterate(self, has_stops: bool, is_profiled: bool = False) -> Message:
        """One iteration, while every other worker idles; `has_stops`: an id may end a response.

        With `is_profiled` the message has seconds by kind of "operations", and takes longer.
        """
        time.sleep(SETTLE_S)
        assert self._process.stdin is not None
        try:
            command = {"has_stops": has_stops, "is_profiled": is_profiled}
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the worker has failed, which reading will tell
        return self._read()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the worker, which needs no time for it: it holds nothing that is to be kept."""
        self._process.kill()
        self._process.communicate()
        self._stack.close()

    def _read(self) -> Message:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        status = self._process.wait()
        self._log.seek(0)
        tail = "".join(self._log.readlines()[-LOG_LINES:])
        raise RuntimeError(f"worker {self.name} ended with status {status}:\n{tail}")
