"""Two machines: network namespaces of this one with a cable between them, as any user may make."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

IDLE = ["sh", "-c", "echo ready; exec sleep infinity"]
NAMESPACES = ["--user", "--net", "--uts"]


class Machine:
    """`here` goes before a command that this machine is to run."""

    def __init__(self, name: str, address: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout.readline() == "ready\n"
        self.name = name
        self.address = address
        inside = ["--preserve-credentials", *NAMESPACES]
        self.here = ["nsenter", f"--target={process.pid}", *inside]
        self.run("hostname", name)
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *command: str) -> None:
        subprocess.run([*self.here, *command], check=True)

    def plug_in(self) -> None:
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "cable")
        self.run("ip", "link", "set", "cable", "up")

    def vanish(self) -> None:
        """What is sent to its address is answered by nobody, as when it has lost its power."""
        self.run("ip", "address", "flush", "dev", "cable")


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    """Skips where there is no way to make them."""
    if shutil.which("ip") is None or shutil.which("nsenter") is None:
        pytest.skip("needs iproute2 and util-linux")
    if subprocess.run(["unshare", "--map-root-user", *NAMESPACES, "true"], check=False).returncode:
        pytest.skip("needs namespaces")
    with idle(["unshare", "--map-root-user", *NAMESPACES]) as first:
        one = Machine("one", "10.0.0.1", first)
        with idle([*one.here, "unshare", "--net", "--uts"]) as second:
            two = Machine("two", "10.0.0.2", second)
            cable = ["cable", "type", "veth", "peer", "name", "cable", "netns", str(second.pid)]
            one.run("ip", "link", "add", *cable)
            for machine in (one, two):
                machine.plug_in()
            yield one, two


@contextmanager
def idle(namespaces: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the namespaces while the body runs."""
    process = subprocess.Popen([*namespaces, *IDLE], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
