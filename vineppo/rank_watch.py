"""A rank that is lost ends all others, on whatever machine they are.

A launcher ends the ranks of its own machine when one of them fails. Those of other machines would
wait for the lost rank in a collective, by NCCL until its time limit. So every rank has a TCP
connection to the main rank. The kernel closes it when the process ends, however it ends, and gives
it up when the other machine does not answer any more. Neither needs the process to run: one that
holds the interpreter's lock for long, or is stopped by a debugger or a scheduler, is not taken for
lost. A rank that hangs is not noticed.
"""

import os
import secrets
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from vineppo.distributed import gather, init_distributed, is_main, num_ranks, rank
from vineppo.errors import InterruptionError, UserError
from vineppo.parent_death import die_with_parent

CONNECT_S = 20.0
# A machine is lost when it has not answered for 15 s, and then not on 4 probes 5 s apart.
IDLE_S = 15
PROBE_S = 5
NUM_PROBES = 4


def connect(address: str) -> dict[int, socket.socket]:
    """This rank's connections, by the rank at the other end; `address` is the main rank's machine.

    It is where all ranks have met, so it can be reached. A rank that cannot reach it says so, and
    has none.
    """
    server = listen() if is_main() else None
    mine = (server.getsockname()[1] if server else 0, secrets.token_hex(16))
    port, token = gather(mine)[0]
    connections = {} if is_main() else join(address, port, token)
    num_joined = sum(gather(len(connections)))
    if server is not None:
        with server:
            connections = accept(server, token, num_joined)
    for connection in connections.values():  # the kernel asks whether the other machine is there
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, NUM_PROBES)
    return connections


def hear(connection: Any) -> bytes:
    """The first line that has come in; nothing once the other end is lost."""
    try:
        return bytes(connection.recv(64)).partition(b"\n")[0]
    except OSError:
        return b""


def listen() -> socket.socket:
    """Connections wait in its backlog until they are accepted."""
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", 0), family=family, dualstack_ipv6=both, backlog=num_ranks())


def join(address: str, port: int, token: str) -> dict[int, socket.socket]:
    try:
        connection = socket.create_connection((address, port), timeout=CONNECT_S)
        connection.sendall(f"{token} {rank()}\n".encode())
    except OSError as error:
        print(
            f"vineppo: rank {rank()} on {socket.gethostname()} does not reach {address}, port "
            f"{port} ({error}): it does not notice when another rank is lost, nor the others it",
            file=sys.stderr,
        )
        return {}
    connection.settimeout(None)
    return {0: connection}


def accept(server: socket.socket, token: str, number: int) -> dict[int, socket.socket]:
    """So many that know the token and have connected already, by their ranks."""
    server.settimeout(CONNECT_S)
    connections: dict[int, socket.socket] = {}
    while len(connections) < number:
        connection, _ = server.accept()
        connection.settimeout(CONNECT_S)
        words = hear(connection).decode(errors="replace").split()
        connection.settimeout(None)
        if words[:1] == [token]:
            connections[int(words[1])] = connection
        else:  # no rank of this job
            connection.close()
    return connections


# So long a rank may yet end by itself: with an error of its own, or by its launcher.
GRACE_S = 10.0
NOTICE_S = 1.0  # a lost rank's connections break at once, but not all in the same moment
EXIT_S = 30  # what hangs when an interpreter ends must not keep the others from noticing
LEFT = b"left"


@contextmanager
def watched_ranks() -> Iterator[None]:
    """Ends this process when another rank is lost while the body runs; all ranks enter together.

    A launcher's end is this process's as well, so that no rank is left without one.
    """
    if num_ranks() == 1:
        yield
        return
    if "TORCHELASTIC_RUN_ID" in os.environ or "CROSS_RANK" in os.environ:
        die_with_parent()  # torchrun's or deepspeed's agent
    init_distributed()
    watch = RankWatch(connect(os.environ["MASTER_ADDR"]), gather(socket.gethostname()), end_process)
    try:
        yield
    except InterruptionError:  # all ranks are
        watch.leave()
        raise
    except BaseException as error:
        watch.stop()
        is_failure = isinstance(error, Exception) and not isinstance(error, UserError)
        if is_failure and (line := watch.loss(NOTICE_S)) is not None:
            print(line, file=sys.stderr, flush=True)  # gloo's error does not name the rank
        signal.alarm(EXIT_S)
        raise
    watch.leave()


class RankWatch:
    """Calls `end` with a line on the lost rank, `GRACE_S` after its connection has broken.

    `connections` are by the rank at the other end: the main rank's to all others, or another's to
    the main one, which tells it of a lost rank. `hosts` are the machines of all ranks.
    """

    def __init__(
        self,
        connections: Mapping[int, socket.socket],
        hosts: Sequence[str],
        end: Callable[[str], object],
    ) -> None:
        self._connections = dict(connections)
        self._hosts = list(hosts)
        self._end = end
        self._is_over = threading.Event()
        self._is_noticed = threading.Event()
        self._line = ""
        threading.Thread(target=self._watch, name="rank-watch", daemon=True).start()

    def leave(self) -> None:
        """This rank has come to its end: it watches no more, and its end is no loss."""
        self._is_over.set()
        self._tell(LEFT)

    def stop(self) -> None:
        """This rank ends by an error. The others notice once it has, with its traceback shown."""
        self._is_over.set()

    def loss(self, within_s: float) -> str | None:
        """The line on a lost rank, where one is noticed within that time."""
        return self._line if self._is_noticed.wait(within_s) else None

    def _watch(self) -> None:
        lost = self._first_lost()
        if lost is None:
            return
        self._tell(str(lost).encode())
        self._line = (
            f"vineppo: rank {lost} on {self._hosts[lost]} is lost, which ends this one on "
            f"{socket.gethostname()} as well; the same command goes on from the last checkpoint"
        )
        self._is_noticed.set()
        if not self._is_over.wait(GRACE_S):
            self._end(self._line)

    def _first_lost(self) -> int | None:
        """The first rank that ends without having left; None once all have left."""
        with selectors.DefaultSelector() as selector:
            for other, connection in self._connections.items():
                selector.register(connection, selectors.EVENT_READ, other)
            while selector.get_map():
                for key, _ in selector.select():
                    word = hear(key.fileobj)
                    if word != LEFT:
                        return int(word) if word else key.data
                    selector.unregister(key.fileobj)
        return None

    def _tell(self, word: bytes) -> None:
        for connection in self._connections.values():
            with suppress(OSError):  # it may be lost, too
                connection.sendall(word + b"\n")


def end_process(line: str) -> None:
    """At once, also out of a collective that would wait for hours."""
    print(line, file=sys.stderr, flush=True)
    os._exit(1)
