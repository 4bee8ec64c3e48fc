"""A process that kills itself at a chosen place."""

import os
import signal
import sys
from pathlib import Path

FILE_EVENTS = {"open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir"}


def killed_once(path: Path) -> None:
    """This process kills itself at its first work on a file after `path` exists.

    It does so at the same place on a slow machine and on a fast one.
    """

    def kill(event: str, _: object) -> None:
        if event in FILE_EVENTS and path.exists():
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
