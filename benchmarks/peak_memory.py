"""Peak memory of one iteration's rollouts and values at one K, in MiB, on the last line of stdout.

`scaling` starts `python -m benchmarks.peak_memory K OPTIONS` for every K, with its own options in
JSON. A peak belongs to a process for good, so every K needs a fresh one. It is the host's memory,
also on a machine with a GPU: requests wait there. vLLM takes at its start all the GPU memory that
it will have.
"""

import json
import resource
import subprocess
import sys
from dataclasses import asdict, replace

from benchmarks.harness import Options, run_main
from benchmarks.workload import open_workload
from vineppo.errors import UserError


def peak_mib(num_continuations: int, options: Options) -> float:
    """Measured in a fresh process. Raises `UserError` with the last line that it wrote."""
    command = [sys.executable, "-m", "benchmarks.peak_memory"]
    arguments = [str(num_continuations), json.dumps(asdict(replace(options, out=None)))]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        raise UserError(f"peak memory at K = {num_continuations}: {lines[-1]}")
    return float(result.stdout.strip().splitlines()[-1])


def main() -> None:
    num_continuations, options = sys.argv[1:]
    with open_workload(Options(**json.loads(options))) as workload:
        workload.varied(num_continuations=int(num_continuations)).experience()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)


if __name__ == "__main__":
    run_main(main)
