"""Processes of this repository that start at once: forks of a server with the libraries imported.

A fork runs the function that the console script would call, with the same arguments, environment
and working directory. Its exit status and its output are those of a process of its own.
"""

import importlib
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
SUPPORT = Path(__file__).parent
TIMEOUT_S = 600.0  # so long that only what hangs takes longer
PATH = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))


class Forked:
    """A process that calls `module.name(*given)`, and exits with the status that it returns."""

    def __init__(
        self, function: str, *given: Any, env: Mapping[str, str] = {}, cwd: Path | None = None
    ) -> None:  # fmt: skip
        _start_server()
        self._folder = tempfile.TemporaryDirectory()
        self._paths = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        context = multiprocessing.get_context("forkserver")
        whole = {**os.environ, "OMP_NUM_THREADS": "1", **env}
        place = str(cwd or Path.cwd())
        self._process = context.Process(
            target=_become, args=(function, given, whole, place, list(map(str, self._paths)))
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """For `multiprocessing.connection.wait`: it is ready when the process has ended."""
        return self._process.sentinel

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def communicate(self, timeout: float = TIMEOUT_S) -> tuple[str, str]:
        """Its stdout and stderr, at its end."""
        self._process.join(timeout)
        if self.returncode is None:
            self.kill()
            raise subprocess.TimeoutExpired(str(self._process), timeout, *self.written())
        return self.written()

    def written(self) -> tuple[str, str]:
        out, err = (path.read_text() if path.exists() else "" for path in self._paths)
        return out, err


def run(function: str, *given: Any, **places: Any) -> subprocess.CompletedProcess[str]:
    process = Forked(function, *given, **places)
    out, err = process.communicate()
    assert process.returncode is not None
    return subprocess.CompletedProcess(given, process.returncode, out, err)


def run_cli(arguments: Sequence[str], **places: Any) -> subprocess.CompletedProcess[str]:
    """`vineppo ARGUMENTS`."""
    return run("vineppo.cli.main", list(arguments), **places)


def run_module(
    name: str, arguments: Sequence[str], **places: Any
) -> subprocess.CompletedProcess[str]:
    """`python -m NAME ARGUMENTS`."""
    return run(f"{__name__}._as_module", name, list(arguments), **places)


def _as_module(name: str, arguments: list[str]) -> None:
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def start_ranks(num_ranks: int, function: str, *given: Any, **env: str) -> list[Forked]:
    """Ranks of one machine, with the environment that torchrun gives them, without its agent."""
    common = {
        "WORLD_SIZE": str(num_ranks),
        "LOCAL_WORLD_SIZE": str(num_ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        **env,
    }
    return [
        Forked(function, *given, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(num_ranks)
    ]


def run_ranks(num_ranks: int, function: str, *given: Any, **env: str) -> list[str]:
    """The output of each, all of them having come to a good end."""
    processes = start_ranks(num_ranks, function, *given, **env)
    outputs = ["".join(process.communicate()) for process in processes]
    assert [process.returncode for process in processes] == [0] * num_ranks, "\n".join(outputs)
    return outputs


def call_on_ranks(function: Callable[..., None], *given: Any, num_ranks: int = 2) -> None:
    """`function(rank, *given)` in forks, each of which raises what it raises."""
    import torch.multiprocessing

    _start_server()
    torch.multiprocessing.start_processes(
        function, args=given, nprocs=num_ranks, start_method="forkserver"
    )


def not_ended(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that go on for good; an end that nobody has asked for yet is one."""
    left, deadline = list(processes), time.monotonic() + TIMEOUT_S
    while left and time.monotonic() < deadline:
        left = [process for process in left if is_running(process)]
        time.sleep(0.01)
    return left


def is_running(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**changes: str) -> dict[str, str]:
    """The environment of a real process: one thread, this repository before any other."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PATH, **changes}


def _start_server() -> None:
    """Once; it ends with this process."""
    forkserver.set_forkserver_preload(["support.heavy_libraries"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = PATH  # the server takes no path otherwise
    try:
        forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _become(
    function: str, given: Sequence[Any], env: dict[str, str], cwd: str, outputs: list[str]
) -> None:
    """In the fork."""
    for path, stream in zip(outputs, (1, 2), strict=True):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    # The server's were dropped or bound to its own files.
    sys.stdout, sys.stderr = (os.fdopen(n, "w", buffering=1, closefd=False) for n in (1, 2))
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    module, _, name = function.rpartition(".")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    try:
        status = found(*given)
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.exit(status or 0)
