"""Commands on a disk of 4 MiB, which the namespace they run in alone can see."""

import subprocess
from pathlib import Path

import pytest


def in_small_tmpfs(path: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs `command` with 4 MiB of space in `path`, in a mount namespace of its own.

    There it may also mount: `mount -o remount,ro PATH`. Skips the test where none may be mounted.
    """

    def run(*wanted: str) -> subprocess.CompletedProcess[str]:
        mount = f'mount -t tmpfs -o size=4m tmpfs {path} && exec "$@"'
        return subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *wanted],
            capture_output=True,
            text=True,
        )

    if run("true").returncode != 0:
        pytest.skip("needs unshare and the right to mount a tmpfs")
    return run(*command)
