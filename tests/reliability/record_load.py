"""Draws the record of loads, benchmarks/results/load.csv, in a few minutes of one core.

    PYTHONPATH=.:tests python tests/reliability/record_load.py

Each case at a tenth or a quarter of its size and whole, in a process of its own: processor seconds,
and by how much the process grew. Continuations and steps go through the trainer's own sampling,
grading, credit and tables, with an engine that samples a random walk; the run directory is written
by `RunDir`, and read by what reads all of a run.
"""

import csv
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

from support.random_walk import (
    DIGITS,
    MARK,
    NEWLINE,
    TOKENIZER,
    RandomWalkEngine,
    problem,
    prompt_ids,
    sample,
)
from support.walks import CREDIT, walk_config, walked

from analysis.__main__ import main as analyse
from vineppo.config.schema import TrainConfig
from vineppo.engine import Completion, SampleRequest
from vineppo.experience import add_advantages
from vineppo.rollouts import Prompt
from vineppo.run_dir import RunDir
from vineppo.run_dir.tables import rollout_rows, value_rows
from vineppo.types import MONTE_CARLO
from vineppo.values import build_predictors

PATH = Path(__file__).parents[2] / "benchmarks/results/load.csv"
END = (MARK, DIGITS[-1], TOKENIZER.eos_token_id)


class Engine(RandomWalkEngine):
    """At most 512 at a time, each done in a step; a response has so many lines, where asked."""

    def __init__(self, num_lines: int | None = None) -> None:
        super().__init__()
        self._num_lines = num_lines
        self._waiting: deque[tuple[SampleRequest, Callable[[Completion], None]]] = deque()

    @property
    def num_unfinished(self) -> int:
        return len(self._waiting)

    def submit(self, request: SampleRequest, done: Callable[[Completion], None]) -> None:
        self._waiting.append((request, done))

    def step(self) -> None:
        for _ in range(min(len(self._waiting), 512)):
            request, done = self._waiting.popleft()
            ids = END if self._num_lines else tuple(sample(request))
            if self._num_lines and request.with_logprobs:
                ids = (DIGITS[2], NEWLINE) * (self._num_lines - 1) + END
            done(Completion(ids, (-0.5,) * len(ids), "stop"))


def iteration(
    config: TrainConfig, num_problems: int, num_lines: int | None, run_dir: RunDir
) -> int:
    """The number of its continuations."""
    prompts_P = tuple(
        Prompt(replace(problem(2), id=f"walk/{number}"), prompt_ids(2))
        for number in range(num_problems)
    )
    experience, _ = walked(config, Engine(num_lines), prompts_P)
    for rollout in experience.rollouts:
        rollout.tokens_T["kl"] = (0.0,) * len(rollout.response_ids)
        rollout.tokens_T["trainer_logprobs"] = rollout.logprobs_T
    add_advantages(experience.rollouts, build_predictors(config, None), config, 0.0)
    run_dir.write_rollouts(1, rollout_rows(experience.rollouts))
    run_dir.write_values(1, value_rows(experience.rollouts, [MONTE_CARLO]))
    return experience.num_continuations


def continuations(size: int, folder: Path) -> None:
    credit = replace(CREDIT, num_continuations=16, identical_prefixes="separate")
    config = walk_config(400, 1, credit, num_samples=4)
    found = iteration(config, size // 240, None, RunDir(folder))
    assert found >= size, found


def steps(size: int, folder: Path) -> None:
    config = walk_config(2 * size + 8, 1, CREDIT, num_samples=2)
    found = iteration(config, 1, size, RunDir(folder))
    assert found >= size, found


def made_run(num_iterations: int, path: Path) -> Path:
    """Such a run's directory; only its ends have tables of their own, all others copies."""
    run = RunDir.open(path, {"name": "load", "seed": 1, "credit": {"kind": "vine"}})
    iteration(walk_config(60, 1), 3, None, run)
    for number in range(num_iterations + 1):
        if number % 10 == 0:
            counts_P = [(number + index) % 5 for index in range(500)]
            run.write_evaluation(
                number,
                {
                    "pass@1": sum(counts_P) / 2000,
                    "num_problems": 500,
                    "samples_per_problem": 4,
                    "num_correct_P": counts_P,
                },
            )
        if number > 0:
            names = ("reward/mean", "kl/ref", "policy/loss", "critic/explained_variance")
            phases = ("rollout", "values", "logprobs", "update", "sync", "evaluate", "checkpoint")
            run.append_metrics(
                {"iteration": number, "tokens/rollout": 8000, "tokens/values": 40000}
                | dict.fromkeys(names, 1 / number)
                | {f"time/{phase}_s": 1.0 for phase in phases}
                | {"time/total_s": 8.0, "time/elapsed_s": 8.0 * number}
                | {f"further/{index}": 0.5 for index in range(60)}
            )
        if number > 1:
            for kind in ("rollouts", "values"):
                first = path / kind / "iter_000001.parquet"
                (path / kind / f"iter_{number:06d}.parquet").hardlink_to(first)
    return path


def report(path: Path) -> None:
    run_analysis("report", path)
    assert (path.parent / "out/report.html").stat().st_size < 2**22


def run_analysis(name: str, path: Path) -> None:
    with redirect_stdout(StringIO()):
        assert analyse([name, str(path), "--out", str(path.parent / "out")]) == 0


def resume(path: Path) -> None:
    """What a run that goes on does with its directory, and one further line."""
    run = RunDir(path)
    number = run.last_logged_iteration()
    run.discard_after(number - 1)
    run.append_metrics({"iteration": number})


def measured(case: Callable[[], None]) -> tuple[float, float]:
    """Processor seconds, and MiB by which the peak grew."""
    before_s = time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    case()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.process_time() - before_s, (after - before) / 1024


def main() -> None:
    context = multiprocessing.get_context("fork")
    rows = []
    with tempfile.TemporaryDirectory() as folder:  # so that imports are no one's
        report(made_run(2, Path(folder) / "run"))

    def record(name: str, size: int, case: Callable[[], None]) -> None:
        with context.Pool(1) as pool:
            cpu_s, mib = pool.apply(measured, (case,))
        rows.append({"case": name, "size": size, "cpu_s": round(cpu_s, 2), "mib": round(mib, 1)})
        print(rows[-1], flush=True)

    for name, sizes in {continuations: (10_000, 100_000), steps: (1_024, 4_096)}.items():
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                record(name.__name__, size, partial(name, size, Path(folder)))
    for size in (1_000, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            with context.Pool(1) as pool:
                pool.apply(made_run, (size, path))
            record("report", size, partial(report, path))
            for analysis in ("learning-curves", "critic-health"):
                record(analysis, size, partial(run_analysis, analysis, path))
            record("resume", size, partial(resume, path))
            shutil.rmtree(path)
    with PATH.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
