"""The worker process: `python -m vineppo.tasks.worker FD PARENT_PID`, started by `worker_pool`."""

import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from vineppo.parent_death import die_with_parent
from vineppo.tasks.equivalence import warm_up


def main(fd: int, parent_pid: int) -> None:
    """Receive the function, say when warm, then answer arguments with values until the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # The closed pipe alone would not reach a worker that hangs in C code.
    die_with_parent()
    if os.getppid() != parent_pid:  # it ended before that took effect
        return
    logging.disable(logging.WARNING)  # math-verify warns in every process that it has no timeout
    with Connection(fd) as connection:
        try:
            function = connection.recv()
            warm_up()
            if (load := getattr(function, "load", None)) is not None:
                load()  # a user's file, whose imports are no part of the time limit
            connection.send("warm")
            while True:
                connection.send(_evaluate(function, connection.recv()))
        except (EOFError, ConnectionError):
            return  # the parent is gone


def _evaluate(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*args)
    except BaseException:  # a SystemExit is the function's failure too, not the worker's end
        return False, traceback.format_exc(limit=-5)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
