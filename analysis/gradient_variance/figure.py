"""The figure of `gradient-variance`: variance and signal of each estimator, and their prices."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from analysis import figures
from analysis.gradient_variance.noise import NoiseRow

RATIOS = (
    ("trace_ratio", "variance of a problem's gradient"),
    ("trace_tokens_ratio", "variance at equal sampled tokens"),
    ("trace_time_ratio", "variance at equal time"),
)
# What a quantity is multiplied by, beside its title.
SIGNALS = (
    ("signal", 1, "signal to noise of a problem"),
    ("signal_per_token", 1000, "signal to noise of 1,000 sampled tokens"),
    ("signal_per_s", 1, "signal to noise of a second"),
)
CAPTION = (
    "dot: estimate, bar: 95 % bootstrap over problems; variances compare estimators of one mean, "
    "which grpo is not"
)
SPREAD = 0.6  # of the room between two estimators, which the runs of one share


def draw(rows: Sequence[NoiseRow], path: Path) -> list[Path]:
    """A dot a run and checkpoint with its interval: ratios to the first above, signals below."""
    names = estimator_names(rows)
    with figures.panels(2, 3, margin_in=0.8) as (figure, axes):
        for axis, (quantity, title) in zip(axes[:3], RATIOS, strict=True):
            chosen = [row for row in rows if row.quantity == quantity]
            draw_dots(axis, chosen, names, 1)
            _logarithmic(axis, [row.value for row in chosen if row.value is not None])
            axis.set_title(f"{title} ({names[0]}: 1)")
        for axis, (quantity, scale, title) in zip(axes[3:], SIGNALS, strict=True):
            draw_dots(axis, [row for row in rows if row.quantity == quantity], names, scale)
            axis.axvline(0, color="0.7", linewidth=0.6, zorder=0)
            axis.xaxis.set_major_locator(MaxNLocator(5))
            axis.set_title(title)
        for place, axis in enumerate(axes):
            axis.set_yticks(range(len(names)), names if place % 3 == 0 else [""] * len(names))
            axis.set_ylim(len(names) - 0.5, -0.5)
        figures.caption(figure, CAPTION)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def estimator_names(rows: Sequence[NoiseRow]) -> list[str]:
    """The first, then the others in their order, those of Monte-Carlo values last."""
    names = list(dict.fromkeys(row.estimator for row in rows))
    return [names[0], *sorted(names[1:], key=lambda name: name.startswith("vine"))]


def draw_dots(axis: Axes, rows: Sequence[NoiseRow], names: Sequence[str], scale: float) -> None:
    """One colour a run and checkpoint, below one another; what is undefined is left out."""
    groups = list(dict.fromkeys(row.group for row in rows))
    for index, group in enumerate(groups):
        shift = SPREAD * ((index + 0.5) / len(groups) - 0.5)
        color = figures.line_style(index)["color"]
        of_group = [row for row in rows if row.group == group]
        known = [
            (scale * row.value, names.index(row.estimator) + shift, row)
            for row in of_group
            if row.value is not None
        ]
        first = of_group[0]
        axis.plot(
            [value for value, _, _ in known],
            [place for _, place, _ in known],
            linestyle="",
            color=color,
            marker=figures.marker(index),
            label=f"{first.method}, seed {first.seed}, checkpoint {first.checkpoint}",
        )
        for _, place, row in known:
            if row.low is not None and row.high is not None:
                bar = scale * row.low, scale * row.high
                axis.plot(bar, [place, place], color=color, linewidth=0.9)


def _logarithmic(axis: Axes, dots: Sequence[float]) -> None:
    """Around the dots, and 1, with room for the bars, which may run on."""
    positive = [dot for dot in dots if dot > 0]
    low, high = min([1.0, *positive]) / 2, max([1.0, *positive]) * 2
    axis.set_xscale("log", nonpositive="clip")
    axis.set_xlim(low, high)
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,)))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.axvline(1, color="0.7", linewidth=0.6, zorder=0)
