"""Jobs whose ranks tell what they are at, and what is sent to them there."""

import os
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from support.processes import Forked, start_ranks


class Job:
    """Ranks of `vineppo ARGUMENTS`, which tell the phases of `Progress` that they begin."""

    def __init__(self, num_ranks: int, given: list[str], **env: str) -> None:
        self._reader, writer = Pipe(duplex=False)
        where = f"{__name__}.main_marked"
        if num_ranks == 1:
            self.ranks = [Forked(where, writer, given, env=env)]
        else:
            self.ranks = start_ranks(num_ranks, where, writer, given, **env)
        writer.close()

    def wait_for(self, iteration: int, phase: str) -> None:
        """Raises `EOFError` if the job ends before it."""
        while self._reader.recv() != (iteration, phase):
            pass

    def finish(self) -> str:
        """Its output, having come to a good end."""
        output = "".join(self.communicate())
        assert [process.returncode for process in self.ranks] == [0] * len(self.ranks), output
        return output

    def communicate(self) -> list[str]:
        return ["".join(process.communicate()) for process in self.ranks]


def left_half_written(run_dir: Path) -> list[Path]:
    names = ("*.vineppo-tmp", ".tmp-*")
    return [path for name in names for path in run_dir.rglob(name)]


def shared_memory(pid: int) -> set[Path]:
    """The segments that a process has mapped."""
    with suppress(OSError):  # it has ended, or is another user's
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
        return {Path(line.split()[-1]) for line in lines if "/dev/shm/" in line}
    return set()


def main_marked(writer: Connection, given: list[str]) -> int:
    """`vineppo ARGUMENTS`, which tells what it begins.

    SIGNALS "1 2 values 15 15" has rank 1 send itself SIGTERM twice as it begins the values of
    iteration 2.
    """
    from vineppo.cli import main
    from vineppo.distributed import rank
    from vineppo.progress import Progress
    from vineppo.session import BareSession

    now = 0, "start"
    signals = os.environ.get("SIGNALS", "").split()

    def tell(iteration: int, phase: str) -> None:
        nonlocal now
        if (iteration, phase) != now:
            now = iteration, phase
            writer.send(now)
            if [str(rank()), str(iteration), phase] == signals[:3]:
                for number in signals[3:]:
                    os.kill(os.getpid(), int(number))
                signals.clear()

    def enter(progress: Progress, phase: str | None) -> None:
        if phase is not None:
            tell(now[0], phase)
        entered(progress, phase)

    def iterations(session: BareSession) -> Iterator[int]:
        for iteration in counted(session):
            tell(iteration, "start")
            yield iteration

    entered, counted = Progress.enter, BareSession.iterations
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "enter", enter)
        patch.setattr(BareSession, "iterations", iterations)
        return main(given)
