"""What the runs cost: tokens by kind, time and memory, a line a method."""

from collections.abc import Sequence
from statistics import fmean

from analysis.frames import Run
from analysis.report.markup import number, paragraph, table

HEADS = (
    "method",
    "runs",
    "iterations",
    "tokens sampled for rollouts",
    "… for values",
    "prompt tokens computed",
    "… from the prefix cache",
    "training time",
    "sampled tokens/s",
    "peak memory",
)
NOTE = (
    "Means over the runs of a method, of whole runs up to their last iteration. Prompt tokens are "
    "those that the engine was given to go on from: questions, and prefixes of responses. Training "
    "time leaves evaluations out; sampled tokens/s are those of rollouts and values by it."
)


def costs_table(runs: Sequence[Run]) -> str:
    """Runs of one name are one method."""
    methods: dict[str, list[Run]] = {}
    for one in runs:
        methods.setdefault(one.name, []).append(one)
    rows = [(name, *_cells(of)) for name, of in methods.items()]
    return table(HEADS, rows, frozenset(range(1, len(HEADS)))) + paragraph(NOTE)


def total(run: Run, metric: str) -> float | None:
    """The sum of a metric over the iterations; None where one of them did not log it."""
    logged = run.series(metric)
    return float(logged.sum()) if len(logged) == len(run.metrics) else None


def last(run: Run, metric: str) -> float | None:
    """A metric of the last iteration; None where that did not log it."""
    return run.series(metric).get(run.metrics["iteration"].iloc[-1])


def _cells(runs: Sequence[Run]) -> list[str]:
    rollouts = _mean([total(run, "tokens/rollout") for run in runs])
    values = _mean([total(run, "tokens/values") for run in runs])
    prompts = _mean([total(run, "tokens/prompt") for run in runs])
    cached = _mean([total(run, "tokens/prefix_cached") for run in runs])
    elapsed_s = _mean([last(run, "time/elapsed_s") for run in runs])
    memory_gib = _mean([max(run.series("memory/peak_gib"), default=None) for run in runs])
    computed = None if prompts is None or cached is None else prompts - cached
    rate = None if rollouts is None or not elapsed_s else (rollouts + (values or 0)) / elapsed_s
    iterations = sorted({run.metrics["iteration"].iloc[-1] for run in runs})
    return [
        str(len(runs)),
        "–".join(map(str, dict.fromkeys((iterations[0], iterations[-1])))),
        *(number(count) for count in (rollouts, values, computed, cached)),
        number(elapsed_s, unit=" s"),
        number(rate),
        number(memory_gib, ".2f", " GiB"),
    ]


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [one for one in numbers if one is not None]
    return fmean(known) if len(known) == len(numbers) else None
