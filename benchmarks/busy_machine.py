"""How much an iteration slows down on a machine that does other work.

`python -m benchmarks.busy_machine` trains the demo's VinePPO alone and beside two programs. Each
program wants 60 % of a core, in bursts. Both are measured as a run is (`share_cores`), and with the
libraries' threads as they are: they spin while they wait and are bound to cores. `--before` adds
an earlier commit, as a run was then.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Options, alternate, parse_options, ratio, report, run_main
from vineppo.run_dir.environment import describe_source

ROOT = Path(__file__).resolve().parents[1]
NUM_ITERATIONS = 4  # of which the first is left out: it warms up
NUM_PROGRAMS = 2
BURSTS = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    start = time.perf_counter()
    while time.perf_counter() - start < 0.3:
        pass
    time.sleep(0.2)
"""
AS_THEY_ARE = {"VLLM_CPU_OMP_THREADS_BIND": "auto"}  # a user's setting: nobody watches the cores


@contextmanager
def programs(number: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", BURSTS]) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def iteration_s(
    options: Options, number: int, environment: dict[str, str], code: Path = ROOT
) -> float:
    """The median seconds of an iteration beside `number` programs, by the commit in `code`."""
    settings = {
        "num_iterations": 2 if options.is_quick else NUM_ITERATIONS,
        "evaluation.every": 0,
        "evaluation.num_samples": 1,
        "task.num_test_problems": 1,
        "checkpoint.every": 100,
        "logging.wandb_project": "null",
    }
    assignments = [*(f"{key}={value}" for key, value in settings.items()), *options.assignments]
    with tempfile.TemporaryDirectory() as folder, programs(number):
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "vineppo.cli", "train", "configs/demo_vineppo.jsonnet"]
        command += ["--run-dir", str(run)]
        command += [part for assignment in assignments for part in ("--set", assignment)]
        subprocess.run(
            command, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL,
            cwd=code,
        )  # fmt: skip
        lines = (run / "metrics.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["time/total_s"] for line in lines[1:])


def main() -> None:
    options = parse_options("busy_machine", __doc__.splitlines()[0], has_before=True)
    names: dict[str, dict[str, str]] = {"ours": {}, "as they are": AS_THEY_ARE}
    alternatives = {
        f"{name}, {'busy' if number else 'quiet'}": partial(
            iteration_s, options, number, environment
        )
        for name, environment in names.items()
        for number in (0, NUM_PROGRAMS)
    }
    if options.before is not None:
        alternatives |= {
            f"before, {'busy' if number else 'quiet'}": partial(
                iteration_s, options, number, {}, options.before
            )
            for number in (0, NUM_PROGRAMS)
        }
    found = alternate(options.num_runs, alternatives)
    ratios = {
        f"beside two programs ÷ alone, {name}": ratio(
            found[f"{name}, busy"], found[f"{name}, quiet"]
        )
        for name in names
    }
    ratios["alone: ours ÷ as they are"] = ratio(found["ours, quiet"], found["as they are, quiet"])
    source = None if options.before is None else describe_source(options.before)
    seconds: dict[str, Any] = {
        f"seconds, {name}": statistics.median(times) for name, times in found.items()
    }
    report("busy_machine", options, options.num_runs, ratios, {**seconds, "before": source})


if __name__ == "__main__":
    run_main(main)
