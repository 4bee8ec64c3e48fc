"""DeepSpeed's launcher without ssh, as docs/cluster.md has it: the numbers of one process."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from test_ranks import Case, finish, responses, returns, start, weights

CASE = Case("vineppo", "vllm")
STAGE = 2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_machines(
    configs: Path, run_dir: Path, hosts: list[str], hostfile: Path
) -> list[subprocess.Popen[bytes]]:
    """A launcher for every line of the hostfile: all of those machines are this one."""
    hostfile.write_text("\n".join(hosts))
    command = [str(Path(sys.executable).with_name("deepspeed")), f"--hostfile={hostfile}"]
    command += ["--no_ssh", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    training = ["--no_local_rank", "--module", "vineppo.cli", "train", str(configs / CASE.config)]
    training += [f"--run-dir={run_dir}"]
    training += [f"--set={key}={value}" for key, value in CASE.settings(STAGE).items()]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    return [
        subprocess.Popen(
            [*command, f"--node_rank={node}", *training],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
        )
        for node in range(len(hosts))
    ]


@pytest.fixture(scope="module")
def alone(configs, tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("deepspeed") / "alone"
    finish(start(configs, run_dir, CASE, STAGE, num_ranks=1))
    return run_dir


@pytest.mark.slow
@pytest.mark.parametrize(
    "hosts",
    [["localhost slots=2"], ["localhost slots=1", "127.0.0.1 slots=1"]],
    ids=["one machine", "two machines"],
)
def test_two_ranks_of_the_deepspeed_launcher(configs, alone, tmp_path, hosts):
    """The same responses and values; weights within 1e-5 (relative)."""
    run_dir = tmp_path / "two"
    machines = start_machines(configs, run_dir, hosts, tmp_path / "hosts")
    outputs = [finish(machine) for machine in machines]
    assert "".join(outputs).count("demo_vineppo: started") == 1  # one run, not two side by side
    for iteration in (1, 2, 3):
        assert responses(run_dir, iteration) == responses(alone, iteration)
        assert returns(run_dir, iteration) == returns(alone, iteration)
    here, there = weights(run_dir, "policy"), weights(alone, "policy")
    assert (here - there).norm() / there.norm() < 1e-5
