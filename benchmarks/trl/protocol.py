"""Resident processes that run one iteration on command, by lines of JSON. Standard library alone.

The worker says `{"ready": …}` once, and answers every line by one message with what an iteration
took. Its standard output ends when it has failed, its standard input when nothing more is wanted.
Both environments import this module.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
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

    def wait(self) -> bool:
        """Blocks, without using a core, until another iteration is wanted; False: no more."""
        return bool(sys.stdin.readline())


class Worker:
    """The benchmark's end. Raises `RuntimeError` with the worker's last lines where it has failed.

    `with Worker("ours", [python, "-m", "benchmarks.trl.ours", "spec.json"], {}) as ours:` starts,
    `ours.ready()` waits until all is loaded, `ours.iterate()` is an iteration.
    """

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self.versions: dict[str, str] = {}
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

    def ready(self) -> None:
        """Waits until the worker has loaded everything."""
        message = self._read()
        assert "ready" in message, f"{self.name} must say that it is ready, got {message}"
        self.versions = message["ready"]

    def iterate(self) -> Message:
        """One iteration, while every other worker idles."""
        time.sleep(SETTLE_S)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # the worker has failed, which reading will tell
            self._process.stdin.write("\n")
            self._process.stdin.flush()
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
