"""A process that kills itself at a chosen place."""

import os
import signal
import sys
from pathlib import Path

FILE_EVENTS = {"open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir"}


def killed_once(path: Path, num_lines: int = 0) -> None:
    """This process kills itself at its first work on a file after `path` has so many lines.

    It does so at the same place on a slow machine and on a fast one.
    """
    is_asking = False

    def kill(event: str, _: object) -> None:
        nonlocal is_asking
        if event not in FILE_EVENTS or is_asking or not path.exists():
            return
        is_asking = True  # to read is to work on a file as well
        if num_lines == 0 or path.read_bytes().count(b"\n") >= num_lines:
            os.kill(os.getpid(), signal.SIGKILL)
        is_asking = False

    sys.addaudithook(kill)
