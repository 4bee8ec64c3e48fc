"""The workers of `benchmarks/trl_grpo.py`, and the environment of two of them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from benchmarks.trl.protocol import Worker
from vineppo.errors import UserError

FOLDER = Path(__file__).parent
TRL_PYTHON = FOLDER.parent.parent / ".venv-trl" / "bin" / "python"


def set_up() -> None:
    """Makes TRL's environment at first use. Raises `UserError` where it cannot be made."""
    setup = subprocess.run([FOLDER / "setup.sh", sys.executable], check=False)
    if setup.returncode:
        raise UserError(f"TRL's environment cannot be made: setup.sh ended with {setup.returncode}")


@contextmanager
def open_workers(
    spec: Path, trl_spec: Path, cpu_kv_cache_gib: int
) -> Iterator[tuple[list[Worker], dict[str, str]]]:
    """Ready workers of both sides, and why one is missing.

    They load side by side, as a start is measured by nobody, but on a GPU one after another: vLLM
    reserves what it finds free.

    One that cannot start is an error. TRL's vLLM may be missing: it needs a compiler.
    """
    specs = {"ours": spec, "ours_shared": spec, "trl": trl_spec, "trl_vllm": trl_spec}
    with ExitStack() as stack:
        starting = (
            stack.enter_context(start_worker(name, specs[name], cpu_kv_cache_gib)) for name in specs
        )
        workers, missing = [], {}
        for worker in starting if torch.cuda.is_available() else list(starting):
            try:
                worker.ready()
            except RuntimeError as error:
                if worker.name != "trl_vllm":
                    raise
                missing[worker.name] = str(error)
                print(f"without {worker.name}: {error}", file=sys.stderr)
                continue
            workers.append(worker)
        yield workers, missing


def start_worker(name: str, spec: Path, cpu_kv_cache_gib: int) -> Worker:
    """The process of "ours", "ours_shared", "trl" or "trl_vllm"; it is still loading."""
    environment = {
        "HF_HUB_OFFLINE": "1",  # what is named by its hub name is in the cache by now
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": str(cpu_kv_cache_gib),
        # vLLM's default, said aloud: else ours would take the side before it for other work.
        "VLLM_CPU_OMP_THREADS_BIND": "auto",
    }
    ours = [sys.executable, "-m", "benchmarks.trl.ours", str(spec)]
    trl = [str(TRL_PYTHON), "-m", "benchmarks.trl.run_trl", str(spec)]
    commands = {
        "ours": ours,
        "ours_shared": [*ours, "shared"],
        "trl": [*trl, "transformers"],
        "trl_vllm": [*trl, "vllm"],
    }
    return Worker(name, commands[name], environment)
