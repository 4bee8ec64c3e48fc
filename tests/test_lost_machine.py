"""Two machines under torchrun, one of which is lost: the ranks of both end within a minute."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from support.processes import TIMEOUT_S, environment, not_ended
from support.ranks import CASE
from support.two_machines import Machine, two_machines


@dataclass
class Launched:
    """torchrun's agent on one of the machines, with its rank; all that it says goes to `log`."""

    machine: Machine
    agent: subprocess.Popen[bytes]
    log: Path

    def family(self) -> list[psutil.Process]:
        agent = psutil.Process(self.agent.pid)
        return [*agent.children(recursive=True), agent]


def launch(machine: Machine, head: Machine, directory: Path) -> Launched:
    """In a run that is long enough to be lost in."""
    command = [*machine.here, sys.executable, "-m", "torch.distributed.run", "--nnodes=2"]
    command += ["--nproc_per_node=1", f"--local_addr={machine.address}", "--rdzv_backend=c10d"]
    command += [f"--rdzv_endpoint={head.address}:29500", f"--rdzv_conf=is_host={machine == head}"]
    command += ["-m", "vineppo.cli", *CASE.arguments(directory / "run", 0, num_iterations=1000)]
    log = directory / f"{machine.name}.log"
    with log.open("wb") as file:
        agent = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment(GLOO_SOCKET_IFNAME="cable"),
        )
    return Launched(machine, agent, log)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def job(directory: Path) -> Iterator[list[Launched]]:
    """A run that has written its first checkpoint; the main rank is on the first machine."""
    with two_machines() as machines:
        found = [launch(machine, machines[0], directory) for machine in machines]
        members: list[psutil.Process] = []
        try:
            wait_for(directory / "run/checkpoints/iter_000001", found[0].agent)
            members = [process for each in found for process in each.family()]
            yield found
        finally:
            for process in members or [psutil.Process(each.agent.pid) for each in found]:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            for each in found:
                each.agent.wait()


def ranks(launched: Launched) -> list[psutil.Process]:
    return psutil.Process(launched.agent.pid).children()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_a_machine_that_vanishes_ends_the_ranks_of_the_other(tmp_path, lost):
    """An agent whose rendezvous was on the lost machine stays, and waits for it."""
    with job(tmp_path) as launched:
        other = launched[1 - lost]
        waited_for = ranks(other)
        if lost == 1:
            waited_for.append(psutil.Process(other.agent.pid))
        launched[lost].machine.vanish()
        assert not not_ended(waited_for)
        name = launched[lost].machine.name
        assert f"vineppo: rank {lost} on {name} is lost" in other.log.read_text()


@pytest.mark.slow
def test_an_agent_that_is_killed_takes_its_rank_along_and_ends_the_other_machine(tmp_path):
    with job(tmp_path) as (first, second):
        members = second.family()
        second.agent.kill()
        assert first.agent.wait(timeout=TIMEOUT_S) != 0
        assert "vineppo: rank 1 on two is lost" in first.log.read_text()
        assert not not_ended(members)
