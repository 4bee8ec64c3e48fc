"""Ranks that notice each other's end: connections in this process, then processes."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event

import pytest
from support.processes import SUPPORT, environment, free_port

from vineppo import rank_watch
from vineppo.rank_watch import RankWatch

HOSTS = ["one", "one", "two"]
TIMEOUT_S = 60


class Watched:
    """A rank's watch, and the line that it ended with."""

    def __init__(self, connections: dict[int, socket.socket]) -> None:
        self.line = ""
        self._is_ended = Event()
        self.watch = RankWatch(connections, HOSTS, self._end)

    def _end(self, line: str) -> None:
        self.line = line
        self._is_ended.set()

    def is_ended(self, within_s: float) -> bool:
        return self._is_ended.wait(within_s)


@pytest.fixture
def ranks(monkeypatch) -> Iterator[tuple[Watched, Watched, socket.socket]]:
    """The main rank and rank 2, watched, and the connection that is all of rank 1."""
    monkeypatch.setattr(rank_watch, "GRACE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = [socket.create_connection(server.getsockname()) for _ in (1, 2)]
        connections = {rank: server.accept()[0] for rank in (1, 2)}
    with closing(ends[0]), closing(ends[1]), closing(connections[1]), closing(connections[2]):
        yield Watched(connections), Watched({0: ends[1]}), ends[0]


def test_a_lost_rank_ends_all_others(ranks):
    main, second, first = ranks
    first.close()
    for rank in (main, second):
        assert rank.is_ended(2)
        assert rank.line.startswith("vineppo: rank 1 on one is lost")


def test_a_lost_main_rank_ends_the_others(ranks):
    main, second, _ = ranks
    main.watch.stop()
    main.watch._connections[2].shutdown(socket.SHUT_RDWR)
    assert second.is_ended(2)
    assert second.line.startswith("vineppo: rank 0 on one is lost")
    assert not main.is_ended(0.4)


def test_ranks_that_leave_are_not_lost(ranks):
    main, second, first = ranks
    first.sendall(b"left\n")
    first.close()
    assert not main.is_ended(0.4)
    main.watch.leave()
    main.watch._connections[2].close()
    assert not second.is_ended(0.4)


def test_an_error_of_its_own_comes_first(ranks):
    main, second, first = ranks
    first.close()
    main.watch.stop()
    assert main.watch.loss(2).startswith("vineppo: rank 1 on one is lost")
    assert second.is_ended(2)
    assert not main.is_ended(0.4)


@contextmanager
def processes(number: int, port: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks of `watched_rank.py`, all of them in the body of the watch."""
    started = [
        subprocess.Popen(
            [sys.executable, str(SUPPORT / "watched_rank.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(
                RANK=str(rank),
                WORLD_SIZE=str(number),
                MASTER_ADDR="localhost",
                MASTER_PORT=str(port),
            ),
        )
        for rank in range(number)
    ]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def tell(process: subprocess.Popen[str], word: str) -> None:
    process.stdin.write(word + "\n")
    process.stdin.flush()


def errors(process: subprocess.Popen[str], status: int) -> str:
    output = process.communicate(timeout=TIMEOUT_S)[1]
    assert process.returncode == status, output
    return output


@pytest.mark.slow
def test_a_rank_that_is_stopped_is_not_lost_and_one_that_has_failed_is():
    """Stopped for longer than a machine may be silent; then it fails, and hangs when it ends."""
    with processes(2, free_port()) as (main, other):
        tell(main, "wait")
        other.send_signal(signal.SIGSTOP)
        time.sleep(5)
        assert main.poll() is None
        other.send_signal(signal.SIGCONT)
        tell(other, "hang")
        assert "RuntimeError: told to hang" in errors(other, status=-signal.SIGALRM)
        assert f"rank 1 on {socket.gethostname()} is lost" in errors(main, status=1)
