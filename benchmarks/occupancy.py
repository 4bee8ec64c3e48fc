"""How full the engine was over time: the mean, and a figure."""

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path

from benchmarks.watched_engine import EngineStep

GAP_S = 0.01  # the figure shows an engine that rests for longer as empty


def mean_occupancy(steps: Sequence[EngineStep], max_num_seqs: int) -> float:
    """Running sequences over `max_num_seqs`, weighted by the seconds of the steps.

    Of 8 places, 8 taken for 1 s and 2 for 3 s: (8 + 2 · 3) / (8 · 4) = 0.4375.
    """
    seconds = [step.end_s - step.start_s for step in steps]
    taken = sum(step.num_running * s for step, s in zip(steps, seconds, strict=True))
    return taken / (max_num_seqs * sum(seconds))


def covered_s(spans_s: Iterable[tuple[float, float]]) -> float:
    """Seconds when at least one of the spans (start, end) runs.

    (0, 2), (1, 3) and (5, 6) cover 4.
    """
    total, until = 0.0, -inf
    for start, end in sorted(spans_s):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def occupancy_line(steps: Sequence[EngineStep]) -> tuple[list[float], list[int]]:
    """Times and the running sequences from each on: 0 where no step follows within `GAP_S`."""
    times_s: list[float] = []
    running: list[int] = []
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        times_s.append(step.start_s)
        running.append(step.num_running)
        if following is None or following.start_s - step.end_s > GAP_S:
            times_s.append(step.end_s)
            running.append(0)
    return times_s, running


def draw_occupancy(
    steps: Sequence[EngineStep],
    passes_s: Sequence[tuple[float, float]],
    start_s: float,
    max_num_seqs: int,
    path: Path,
) -> None:
    """Running sequences against seconds since `start_s`; passes of the trainer as shaded bands."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    times_s, running = occupancy_line(steps)
    axes.step([time_s - start_s for time_s in times_s], running, where="post")
    axes.axhline(max_num_seqs, color="grey", linestyle=":", label="engine.max_num_seqs")
    for number, (begin_s, end_s) in enumerate(passes_s):
        label = "log-probabilities and update" if number == 0 else None
        axes.axvspan(begin_s - start_s, end_s - start_s, color="tab:orange", alpha=0.3, label=label)
    axes.set(
        xlabel="seconds since the iteration began",
        ylabel="running sequences",
        ylim=(0, 1.05 * max_num_seqs),
    )
    axes.set_xlim(left=0)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
