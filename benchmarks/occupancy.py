"""How full the engine was over time: the mean, and a figure."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.watched_engine import EngineStep


def mean_occupancy(steps: Sequence[EngineStep], max_num_seqs: int) -> float:
    """Running sequences over `max_num_seqs`, weighted by the seconds of the steps.

    Of 8 places, 8 taken for 1 s and 2 for 3 s: (8 + 2 · 3) / (8 · 4) = 0.4375.
    """
    seconds = [step.end_s - step.start_s for step in steps]
    taken = sum(step.num_running * s for step, s in zip(steps, seconds, strict=True))
    return taken / (max_num_seqs * sum(seconds))


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
    starts_s = [step.start_s - start_s for step in steps]
    running = [step.num_running for step in steps]
    axes.step([*starts_s, steps[-1].end_s - start_s], [*running, 0], where="post")
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
