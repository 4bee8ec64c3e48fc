"""Where the time of real training iterations goes.

These are iterations of `vineppo train` in a separate run directory: sampling, scoring, update,
weight sync, metrics on disk. Checkpoints and evaluation do not count: the user sets these.
Busy is when the engine steps, without what requests trigger in our own code (splitting, grading,
submitting), and when a forward, backward or optimizer pass runs. All else is idle. The ratio is a
share of an iteration's time. Parallel work counts once: on a GPU the reference's pass and the
engine. The first iteration, which warms the machine up, and the last, after which the run
evaluates, are left out.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch

from benchmarks.harness import parse_options, report, run_main, spread
from benchmarks.watched_engine import EngineStep, TimedEngine
from benchmarks.workload import describe_workload, workload_config
from vineppo.config.schema import TrainConfig
from vineppo.train import open_training, run_iterations

NAME = "iteration"

Result = TypeVar("Result")


class Passes:
    """When forward, backward and optimizer passes ran in any thread, as (start, end)."""

    def __init__(self) -> None:
        self.spans_s: list[tuple[float, float]] = []
        self._thread = threading.local()  # is_inside: a watched function is running in it

    def watch(self, function: Callable[..., Result]) -> Callable[..., Result]:
        """`function`, noted down to the end of what it started; what it calls itself is part of it.

        A pass inside an update is not waited for, so that the GPU's queue stays as it is.
        """

        def watched(*arguments: Any, **options: Any) -> Result:
            if getattr(self._thread, "is_inside", False):
                return function(*arguments, **options)
            self._thread.is_inside = True
            started = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self._thread.is_inside = False
                if torch.cuda.is_available():
                    torch.cuda.current_stream().synchronize()  # the engine's own runs on
                self.spans_s.append((started, time.perf_counter()))

        return watched


@dataclass(frozen=True)
class Watched:
    """A run's output and measurements; `start_s` is when its first iteration began."""

    metrics: list[dict[str, float]]
    start_s: float
    steps: list[EngineStep]
    passes_s: list[tuple[float, float]]


@dataclass(frozen=True)
class Iteration:
    """One iteration of the run, its steps and passes in seconds from the run's clock."""

    metrics: dict[str, float]
    start_s: float
    end_s: float
    steps: list[EngineStep]
    passes_s: list[tuple[float, float]]

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @property
    def sampling(self) -> float:
        """Share of the time."""
        return sum(step.sampling_s for step in self.steps) / self.seconds

    @property
    def training(self) -> float:
        return covered_s(self.passes_s) / self.seconds

    @property
    def callbacks_s(self) -> float:
        """Seconds of our own code in the engine's steps: splitting, grading, submitting."""
        return sum(step.end_s - step.start_s - step.sampling_s for step in self.steps)

    @property
    def idle(self) -> float:
        """Share of the time when neither runs."""
        sampling_s = [(step.start_s, step.start_s + step.sampling_s) for step in self.steps]
        return 1 - covered_s([*sampling_s, *self.passes_s]) / self.seconds


def main() -> None:
    options = parse_options(NAME, "the share of an iteration in which nothing runs")
    with TemporaryDirectory(prefix="benchmark-") as directory:
        config = workload_config(options, Path(directory))
        config = replace(config, num_iterations=options.num_runs + 2)
        watched = run(config, Path(directory) / "run")
    measured = iterations(watched)[1:-1]
    report(
        NAME,
        options,
        options.num_runs,
        {"idle / iteration": spread([i.idle for i in measured])},
        {
            "sampling": median(i.sampling for i in measured),
            "training": median(i.training for i in measured),
            "engine_steps": median(len(i.steps) for i in measured),
            "callbacks_s": median(i.callbacks_s for i in measured),
            "workload": describe_workload(config),
            "iterations": [i.metrics for i in measured],
        },
    )


def covered_s(spans_s: Iterable[tuple[float, float]]) -> float:
    """Seconds when at least one of the spans (start, end) runs.

    (0, 2), (1, 3) and (5, 6) cover 4.
    """
    total, until = 0.0, -inf
    for start, end in sorted(spans_s):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def run(config: TrainConfig, directory: Path) -> Watched:
    """`vineppo.train.train`, with an engine and passes that are watched."""
    passes = Passes()
    with open_training(config, directory) as (session, train_P, reference):
        start_s = session.progress.started_s
        engine = TimedEngine(session.sampler.engine)
        session.sampler = replace(session.sampler, engine=engine)
        for owner, names in (
            (session.models.policy, ("scores", "update")),
            (reference, ("logprobs", "logits") if reference is not None else ()),
        ):
            for name in names:
                setattr(owner, name, passes.watch(getattr(owner, name)))
        run_iterations(config, session, train_P, reference)
    lines = (directory / "metrics.jsonl").read_text().splitlines()
    return Watched([json.loads(line) for line in lines], start_s, engine.steps, passes.spans_s)


def iterations(watched: Watched) -> list[Iteration]:
    """The run cut where its iterations end: their `time/total_s` follow one another."""
    totals_s = (metrics["time/total_s"] for metrics in watched.metrics)
    borders_s = accumulate(totals_s, initial=watched.start_s)
    return [
        Iteration(
            metrics,
            start_s,
            end_s,
            [step for step in watched.steps if start_s <= step.start_s < end_s],
            [span for span in watched.passes_s if start_s <= span[0] < end_s],
        )
        for metrics, (start_s, end_s) in zip(watched.metrics, pairwise(borders_s), strict=True)
    ]


if __name__ == "__main__":
    run_main(main)
