"""A TCP connection of every rank to the main one, over which each notices the other's end."""

import secrets
import socket
import sys
from typing import Any

from vineppo.distributed import from_main, gather, is_main, num_ranks, rank

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
    port, token = from_main(lambda: (port_of(server), secrets.token_hex(16)))
    connections = {} if is_main() else join(address, port, token)
    num_joined = sum(gather(len(connections)))
    if server is not None:
        with server:
            connections = accept(server, token, num_joined)
    for connection in connections.values():
        keep_alive(connection)
    return connections


def hear(connection: Any) -> bytes:
    """The first line that has come in; nothing once the other end is lost."""
    try:
        return bytes(connection.recv(64)).partition(b"\n")[0]
    except OSError:
        return b""


def listen() -> socket.socket:
    """Connections wait in its backlog until they are accepted."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(
            ("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=num_ranks()
        )
    return socket.create_server(("", 0), backlog=num_ranks())


def port_of(server: socket.socket | None) -> int:
    assert server is not None
    port: int = server.getsockname()[1]
    return port


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
    found: dict[int, socket.socket] = {}
    while len(found) < number:
        connection, _ = server.accept()
        connection.settimeout(CONNECT_S)
        words = hear(connection).decode(errors="replace").split()
        connection.settimeout(None)
        if words[:1] == [token]:
            found[int(words[1])] = connection
        else:  # no rank of this job
            connection.close()
    return found


def keep_alive(connection: socket.socket) -> None:
    """Has the kernel ask whether the other machine is there."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, NUM_PROBES)
