"""Launchers of several machines, as docs/scaling.md has them: the numbers of one process."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import environment, free_port
from support.ranks import Case, finish, flat_weights, responses, returns

CASE = Case("vineppo", "vllm")
STAGE = 2


def torchrun(_directory: Path, slots: list[int]) -> list[list[str]]:
    """The commands of the machines, each with so many ranks: all of them are this machine."""
    assert len(set(slots)) == 1, "torchrun wants equally many ranks on every machine"
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(slots)}"]
    command += [f"--nproc_per_node={slots[0]}", "--rdzv_backend=c10d"]
    command += [f"--rdzv_endpoint=localhost:{free_port()}", "-m", "vineppo.cli"]
    return [command] * len(slots)


def deepspeed(directory: Path, slots: list[int]) -> list[list[str]]:
    """The same under DeepSpeed's launcher, without ssh."""
    hosts = ("localhost", "127.0.0.1")[: len(slots)]
    lines = [f"{host} slots={count}\n" for host, count in zip(hosts, slots, strict=True)]
    (directory / "hosts").write_text("".join(lines))
    command = [str(Path(sys.executable).with_name("deepspeed"))]
    command += [f"--hostfile={directory / 'hosts'}", "--no_ssh", "--master_addr=127.0.0.1"]
    command += [f"--master_port={free_port()}"]
    program = ["--no_local_rank", "--module", "vineppo.cli"]
    return [[*command, f"--node_rank={node}", *program] for node in range(len(slots))]


def start_ranks(launcher: list[str], run_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*launcher, *CASE.arguments(run_dir, STAGE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "slots"), [(torchrun, [1, 1]), (deepspeed, [2]), (deepspeed, [1, 1])]
)
def test_two_ranks_of_a_launcher(whole_runs, tmp_path, launcher, slots):
    """The same responses and values; weights within 1e-5 (relative)."""
    run_dir, alone = tmp_path / "two", CASE.alone(whole_runs)
    machines = [start_ranks(each, run_dir) for each in launcher(tmp_path, slots)]
    outputs = [finish(machine) for machine in machines]
    assert "".join(outputs).count("demo_vineppo: started") == 1  # one run, not two side by side
    for iteration in range(1, CASE.num_iterations + 1):
        assert responses(run_dir, iteration) == responses(alone, iteration)
        assert returns(run_dir, iteration) == returns(alone, iteration)
    here, there = flat_weights(run_dir, "policy"), flat_weights(alone, "policy")
    assert (here - there).norm() / there.norm() < 1e-5
