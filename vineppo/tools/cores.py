"""Cores that other work keeps busy.

OpenMP's threads wait for each other in a loop. If one of them shares its core with another program,
all others wait for that core. An iteration then takes 5 to 10 times as long as with a thread less.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

STAT = Path("/proc/stat")
WATCH_S = 0.5


def watch_cores(seconds: float = WATCH_S) -> dict[int, float]:
    """`busy_shares` of the next `seconds`, of the cores that this process may use.

    It sleeps meanwhile, so that all is other work. Empty where the system does not tell.
    """
    if not STAT.exists():
        return {}
    before = STAT.read_text()
    time.sleep(seconds)
    shares = busy_shares(before, STAT.read_text())
    return {core: shares[core] for core in sorted(os.sched_getaffinity(0)) if core in shares}


def busy_shares(before: str, after: str) -> dict[int, float]:
    """Of each core, the share of the time between two readings of /proc/stat that it was not idle.

    `busy_shares("cpu0 5 0 5 90 0 0 0 0", "cpu0 8 0 6 96 0 0 0 0") == {0: 0.4}`: of ten ticks six
    were idle. A core without a tick between is left out.
    """
    first, last = _ticks(before), _ticks(after)
    shares = {}
    for core in first.keys() & last.keys():
        idle, total = (
            later - earlier for earlier, later in zip(first[core], last[core], strict=True)
        )
        if total > 0:
            shares[core] = min(max(1 - idle / total, 0.0), 1.0)
    return shares


def _ticks(stat: str) -> dict[int, tuple[int, int]]:
    """Idle ticks, with those of waiting for a disk, and all ticks of each core."""
    found = {}
    for name, *numbers in map(str.split, stat.splitlines()):
        if name.startswith("cpu") and name[3:].isdecimal():
            ticks = [int(number) for number in numbers[:8]]  # a guest's are in the user's already
            found[int(name[3:])] = sum(ticks[3:5]), sum(ticks)
    return found


def quiet_cores(shares: Mapping[int, float]) -> list[int]:
    """The least busy cores: as many as other work leaves, at least one.

    `quiet_cores({0: 0.9, 1: 0.1}) == [1]`. Work that moves between cores counts by its sum:
    `quiet_cores({0: 0.5, 1: 0.5}) == [0]`.
    """
    by_work = sorted(shares, key=lambda core: shares[core])
    return sorted(by_work[: max(1, len(by_work) - num_busy(shares))])


def num_busy(shares: Mapping[int, float]) -> int:
    """How many cores other work fills: `num_busy({0: 0.9, 1: 0.1}) == 1`."""
    return round(sum(shares.values()))


def busy_line(shares: Mapping[int, float]) -> str:
    """ "other work keeps 1.0 of 2 cores busy"."""
    return f"other work keeps {sum(shares.values()):.1f} of {len(shares)} cores busy"
