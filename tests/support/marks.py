"""Jobs whose ranks tell what they are at, and what is sent to them there."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from support.processes import Forked, not_ended, start_ranks


@dataclass(frozen=True)
class Mark:
    """What a rank begins: a phase of `Progress`, or "parquet", "metrics", "final"."""

    rank: int
    iteration: int
    phase: str
    time_s: float


@dataclass(frozen=True)
class Moment:
    """So long after the `count`-th time that the rank begins the phase in the iteration."""

    rank: int
    iteration: int
    phase: str
    count: int = 1
    delay_s: float = 0.0


class Job:
    """Ranks of `vineppo ARGUMENTS`."""

    def __init__(self, num_ranks: int, given: list[str], **env: str) -> None:
        self._reader, writer = Pipe(duplex=False)
        where = f"{__name__}.main_marked"
        if num_ranks == 1:
            self.ranks = [Forked(where, writer, given, env=env)]
        else:
            self.ranks = start_ranks(num_ranks, where, writer, given, **env)
        writer.close()

    def marks(self) -> Iterator[Mark]:
        """All that its ranks tell, until the last has ended."""
        with suppress(EOFError):
            while True:
                yield self._reader.recv()

    def wait_for(self, moment: Moment) -> Mark | None:
        """The mark, so long after it; None where the job has ended before."""
        seen: Counter[int] = Counter()
        for mark in self.marks():
            if mark.rank != moment.rank or mark.phase != moment.phase:
                continue
            seen[mark.iteration] += 1
            if (mark.iteration, seen[mark.iteration]) >= (moment.iteration, moment.count):
                time.sleep(max(0.0, mark.time_s + moment.delay_s - time.monotonic()))
                return mark
        return None

    def kill(self, rank: int) -> list[Mark] | None:
        """SIGKILL to a rank. All others end by themselves, and nothing of the job is left.

        What the rank has told since `wait_for`; None where it has come to its end meanwhile.
        """
        try:
            tops = [psutil.Process(process.pid) for process in self.ranks]
            tops[rank].suspend()  # so that it starts nothing while its children are counted
            processes = [p for top in tops for p in (top, *top.children(recursive=True))]
            shared = {path for process in processes for path in shared_memory(process.pid)}
            tops[rank].kill()
        except psutil.NoSuchProcess:
            self.finish()
            return None
        told = [mark for mark in self.marks() if mark.rank == rank]
        output = "".join(self.communicate())
        assert self.ranks[rank].returncode == -signal.SIGKILL, output
        assert all(process.returncode for process in self.ranks), output
        assert not not_ended(processes)
        assert not [path for path in shared if path.exists()]
        return told

    def finish(self) -> str:
        """What it has written, having come to a good end."""
        output = "".join(self.communicate())
        assert [process.returncode for process in self.ranks] == [0] * len(self.ranks), output
        return output

    def communicate(self) -> list[str]:
        return ["".join(process.communicate()) for process in self.ranks]


@dataclass(frozen=True)
class Kill:
    """What a rank was at when it was killed, and for how long."""

    rank: int
    iteration: int
    phase: str
    after_s: float


def traced(num_ranks: int, given: list[str], **env: str) -> list[Mark]:
    """What the ranks of an undisturbed run begin, and when."""
    job = Job(num_ranks, given, **env)
    marks = list(job.marks())
    job.finish()
    return marks


def drawn(marks: list[Mark], phases: Sequence[str], stream: Random) -> list[Moment]:
    """A random moment in each of the phases, in the order in which a run reaches them."""
    moments = []
    for phase in phases:
        rank = stream.choice(sorted({mark.rank for mark in marks if mark.phase == phase}))
        mine = [mark for mark in marks if mark.rank == rank]
        lengths = [b.time_s - a.time_s for a, b in pairwise(mine)] + [0.01]
        chosen = [index for index, mark in enumerate(mine) if mark.phase == phase]
        (index,) = stream.choices(chosen, [lengths[index] for index in chosen])
        key = mine[index].iteration, phase
        count = sum((mark.iteration, mark.phase) == key for mark in mine[: index + 1])
        moments.append((index, Moment(rank, *key, count, stream.uniform(0, lengths[index]))))
    return [moment for _, moment in sorted(moments, key=itemgetter(0))]


def train_killed(
    num_ranks: int, given: list[str], moments: Iterable[Moment], **env: str
) -> list[Kill]:
    """A job that is killed at each of the moments, started again each time, and then finishes.

    On a busy machine a kill may come late, and a last one after the end.
    """
    kills = []
    for moment in moments:
        job = Job(num_ranks, given, **env)
        mark = job.wait_for(moment)
        if mark is None:
            break
        killed_s = time.monotonic()
        told = job.kill(moment.rank)
        if told is None:
            break
        last = [mark, *told][-1]
        kills.append(Kill(last.rank, last.iteration, last.phase, killed_s - last.time_s))
    Job(num_ranks, given, **env).finish()
    return kills


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
    from vineppo.run_dir import RunDir
    from vineppo.session import BareSession

    now = 0, "start"
    signals = os.environ.get("SIGNALS", "").split()

    def tell(iteration: int, phase: str) -> None:
        nonlocal now
        if (iteration, phase) != now:
            now = iteration, phase
            writer.send(Mark(rank(), iteration, phase, time.monotonic()))
            if [str(rank()), str(iteration), phase] == signals[:3]:
                for number in signals[3:]:
                    os.kill(os.getpid(), int(number))
                signals.clear()

    @contextmanager
    def telling(phase: str) -> Iterator[None]:
        before = now[1]
        tell(now[0], phase)
        yield
        tell(now[0], before)

    def told(function: Callable[..., Any], phase: str) -> Callable[..., Any]:
        return telling(phase)(function)

    def enter(progress: Progress, phase: str | None) -> None:
        if phase is not None:
            tell(now[0], phase)
        entered(progress, phase)

    def iterations(session: BareSession) -> Iterator[int]:
        for iteration in counted(session):
            tell(iteration, "start")
            yield iteration
        tell(now[0], "final")

    entered, counted = Progress.enter, BareSession.iterations
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "enter", enter)
        patch.setattr(BareSession, "iterations", iterations)
        for name in ("write_rollouts", "write_values"):
            patch.setattr(RunDir, name, told(getattr(RunDir, name), "parquet"))
        patch.setattr(RunDir, "append_metrics", told(RunDir.append_metrics, "metrics"))
        return main(given)
