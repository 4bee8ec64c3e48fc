"""A rank that acts when it is told to, by a line; limits are short.

"wait": in C code for good, as in a collective that never ends. "hang": it fails, and then the
interpreter does not end.
"""

import atexit
import ctypes
import sys

from vineppo import rank_watch


def shorten_limits() -> None:
    """A machine is lost after 3 s without an answer; then, and at its own end, a rank has 1 s."""
    rank_watch.IDLE_S = rank_watch.PROBE_S = 1
    rank_watch.NUM_PROBES = 2
    rank_watch.GRACE_S = 1.0
    rank_watch.EXIT_S = 1


def wait_in_c() -> None:
    ctypes.CDLL(None).pause()


def act(word: str) -> None:
    if word == "wait":
        wait_in_c()
    atexit.register(wait_in_c)
    raise RuntimeError(f"told to {word}")


if __name__ == "__main__":
    shorten_limits()
    with rank_watch.watched_ranks():
        print("ready", flush=True)
        act(sys.stdin.readline().strip())
