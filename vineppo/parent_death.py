"""A process that does not outlive the one that started it."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def die_with_parent() -> None:
    """Has the kernel kill this process when the thread that started it ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_child(
    module: str, *arguments: int, environment: Mapping[str, str] = os.environ
) -> tuple[subprocess.Popen[bytes], Connection]:
    """A fresh interpreter that runs `module`, and this process's end of a pipe to it.

    Its arguments are the file descriptor of its end, this process's id and `arguments`.
    """
    here, there = multiprocessing.Pipe()
    numbers = (there.fileno(), os.getpid(), *arguments)
    with there:
        # -P: a file in the user's directory must not shadow a module.
        process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", module, *map(str, numbers)],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            process_group=0,  # signals of the terminal are this process's to handle
            env={**environment, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},
        )
    return process, here
