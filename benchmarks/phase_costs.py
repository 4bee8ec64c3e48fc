"""What each phase of an iteration spends its time on: kinds of operations, and no operation.

These are iterations of `vineppo train`, of the demo's VinePPO or a real model's. torch's profiler
watches the last one. A cost is the time of a kind of operations ÷ the phase's. "No operation" is
Python: scheduling, bookkeeping, splitting, grading, and calling operations; also the profiler's own
time.
"""

import re
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.harness import parse_options, report, run_main
from benchmarks.iteration import run
from benchmarks.workload import describe_workload, workload_config
from vineppo.progress import Progress

NAME = "phase_costs"
NUM_BEFORE = 2  # iterations that warm up
MARK = "phase: "
NAMES = {
    "rollout": "rollouts, continuations beside them",
    "values": "remaining continuations",
    "logprobs": "log-probabilities",
    "update": "update",
}
KINDS = {  # the first whose pattern an operation's name has
    "attention": "attention|sdpa|softmax",
    "matrix products": "mm$|linear|bmm|gemm",
    "optimizer": "adam|_foreach",
    "moving and filling memory": "copy|cat$|clone|fill|zero|index|gather|scatter|embedding|sort",
    "norms": "norm",
    "arithmetic": "add|sub|mul|div|pow|sqrt|neg$|silu|gelu|exp|log|where|clamp|sum|mean",
    "views, new tensors": "view|shape|stride|slice|select|pand|pose|permute|empty|detach|squeeze",
}


class Watch:
    """Profiles the iteration after `NUM_BEFORE`, with a mark around every phase."""

    def __init__(self) -> None:
        self.profiler = profile(activities=[ProfilerActivity.CPU])
        self._is_on = False
        self._phase = ExitStack()

    def enter(self, phase: str | None) -> None:
        self._phase.close()
        if self._is_on and phase in NAMES:
            self._phase.enter_context(record_function(MARK + NAMES[phase]))

    def finish_iteration(self, iteration: int) -> None:
        if iteration == NUM_BEFORE:
            self.profiler.start()
            self._is_on = True
        elif iteration > NUM_BEFORE:
            self._phase.close()
            self._is_on = False
            self.profiler.stop()

    def costs(self) -> list[dict[str, Any]]:
        """Phases in order: seconds, and of each kind its share, the largest first."""
        events = sorted(self.profiler.events(), key=lambda event: event.time_range.start)
        until, phase, thread = -1.0, "", None
        seconds: defaultdict[str, float] = defaultdict(float)
        spent: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for event in events:
            if event.name.startswith(MARK):
                phase, until, thread = event.name, event.time_range.end, event.thread
                seconds[phase] += event.time_range.elapsed_us() / 1e6
            elif event.time_range.start < until and event.thread == thread:
                spent[phase][kind_of(event.name)] += event.self_cpu_time_total / 1e6
        rows = []
        for phase, kinds in spent.items():
            kinds["no operation"] = seconds[phase] - sum(kinds.values())
            largest = sorted(kinds.items(), key=lambda kind: -kind[1])
            shares = {kind: took / seconds[phase] for kind, took in largest}
            rows.append({"phase": phase.removeprefix(MARK), "s": seconds[phase], "shares": shares})
        return rows


def kind_of(operation: str) -> str:
    kinds = (kind for kind, names in KINDS.items() if re.search(names, operation))
    return next(kinds, "other operations")


def main() -> None:
    options = parse_options(NAME, __doc__.splitlines()[0])
    watch = Watch()
    for name in ("enter", "finish_iteration"):
        observe(name, getattr(watch, name))
    with TemporaryDirectory(prefix="benchmark-") as directory:
        config = workload_config(options, Path(directory))
        config = replace(config, num_iterations=NUM_BEFORE + 1)
        run(config, Path(directory) / "run")
    report(
        NAME,
        options,
        1,
        {},
        {"workload": describe_workload(config), "phases": watch.costs()},
    )


def observe(name: str, observer: Any) -> None:
    """`observer` is called with the first argument of a method of `Progress`, after it."""
    method = getattr(Progress, name)

    def observed(self: Progress, first: Any, *others: Any) -> None:
        method(self, first, *others)
        observer(first)

    setattr(Progress, name, observed)


if __name__ == "__main__":
    run_main(main)
