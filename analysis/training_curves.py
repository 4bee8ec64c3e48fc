"""Figures of what happens while a run trains: metrics by iteration, and where its time goes."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import figures
from analysis.frames import PHASES, Run, phase_seconds

# (metric, label of the axis)
METRICS = (
    ("reward/mean", "mean reward of rollouts"),
    ("kl/ref", "KL to reference (nats/token)"),
    ("rollout/response_length_mean", "response length (tokens)"),
)
# The same of runs with a critic.
CRITIC_METRICS = (
    ("critic/explained_variance", "critic's explained variance"),
    ("critic/loss", "critic's loss"),
)


def shown_metrics(runs: list[Run]) -> list[tuple[str, str]]:
    """The metrics of every run, then those of critics that any of the runs logged."""
    logged = [entry for entry in CRITIC_METRICS if any(len(run.series(entry[0])) for run in runs)]
    return [*METRICS, *logged]


def draw_metric(axis: Axes, runs: list[Run], names: list[str], metric: str, label: str) -> None:
    """A metric by iteration, a line a run; long runs as a running mean over a pale raw line."""
    for index, (run, name) in enumerate(zip(runs, names, strict=True)):
        series = run.series(metric)
        iterations, values = list(series.index), list(series)
        style = figures.line_style(index)
        window = max(1, len(values) // 25)
        if window > 1:
            axis.plot(iterations, values, color=style["color"], alpha=0.2, linewidth=0.6)
        axis.plot(iterations, running_mean(values, window), label=name, **style)
    figures.whole_iterations(axis)
    axis.set_ylabel(label)
    if not any(len(run.series(metric)) for run in runs):
        axis.text(0.5, 0.5, "not logged", transform=axis.transAxes, ha="center", color="0.5")


def running_mean(values: list[float], window: int) -> list[float]:
    """Mean of each value and those up to `window`//2 away on either side that exist.

    >>> running_mean([0.0, 3.0, 6.0, 0.0], window=3)
    [1.5, 3.0, 3.0, 3.0]
    """
    reach = window // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    count = len(values)
    firsts = [max(0, i - reach) for i in range(count)]
    lasts = [min(count, i + reach + 1) for i in range(count)]
    return [
        float((sums[last] - sums[first]) / (last - first))
        for first, last in zip(firsts, lasts, strict=True)
    ]


def draw_time_shares(figure: Figure, axes: list[Axes], runs: list[Run], names: list[str]) -> None:
    """Stacked shares of an iteration's time by phase, a panel a run; empty phases are left out."""
    shares_by_run = [time_shares(run) for run in runs]
    phases = [*PHASES.values(), "other"]
    taken = [phase for phase in phases if any(shares[phase].any() for _, shares in shares_by_run)]
    for axis, (edges, shares), name in zip(axes, shares_by_run, names, strict=True):
        base = np.zeros(len(edges) - 1)
        for phase in taken:
            color = figures.phase_color(phase, phases)
            top = base + shares[phase]
            axis.stairs(top, edges, baseline=base, fill=True, color=color, label=phase)
            base = top
        axis.set_xlim(edges[0], edges[-1])
        axis.set_ylim(0, 1)
        axis.set_title(name)
        figures.whole_iterations(axis)
        axis.set_ylabel("share of time")
    handles, legend = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], legend[::-1], loc="outside right center")


def time_shares(run: Run) -> tuple[list[float], dict[str, np.ndarray]]:
    """Edges of the iterations that logged their time, and each phase's share of every one.

    The shares of an iteration sum to 1; "other" is what no phase accounts for.
    """
    seconds = phase_seconds(run)
    if seconds.empty:
        return [0.5, 1.5], {name: np.zeros(1) for name in seconds}
    total = seconds.sum(axis=1).replace(0, 1.0)
    edges = [seconds.index[0] - 0.5, *(seconds.index + 0.5)]
    return edges, {name: (seconds[name] / total).to_numpy() for name in seconds}
