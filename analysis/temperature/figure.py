"""The figure: above by the temperature of training, below by that of evaluation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from analysis import figures
from analysis.intervals import Estimate
from analysis.temperature.aggregates import AtBoth, AtTemperature

NUM_COLUMNS = 3
TOP: tuple[tuple[str, Callable[[AtTemperature], Estimate | None]], ...] = (
    ("test pass@1", lambda one: one.final),
    ("truncated (share)", lambda one: one.truncated_frac),
    ("response length (tokens)", lambda one: one.response_length_mean),
)
CAPTION = (
    "interquartile mean and 95 % bootstrap over seeds (too narrow for a handful), last policies; "
    "above evaluated at temperature {at:g}; dashed: best of {count} evaluations, too high by the "
    "noise that it is picked by; dotted: start; rings: evaluated as trained"
)
DODGE = 0.01  # of the axis between lines, so that their bars do not cover one another


def draw(
    results: Sequence[AtTemperature], both: Sequence[AtBoth], start: Estimate | None, out: Path
) -> list[Path]:
    """Writes temperature.png and .svg: three panels, then one an algorithm."""
    names = list(dict.fromkeys(one.algorithm for one in results))
    has_evaluations = len({one.evaluation_temperature for one in both}) > 1
    num_rows = 1 + (-(-len(names) // NUM_COLUMNS) if has_evaluations else 0)
    with figures.panels(num_rows, NUM_COLUMNS) as (figure, axes):
        for axis, (label, value) in zip(axes[:NUM_COLUMNS], TOP, strict=True):
            draw_top(axis, names, results, value)
            axis.set_ylabel(label)
        axes[1].set_ylim(bottom=0)
        draw_best(axes[0], names, results)
        if start is not None:
            axes[0].axhline(start.value, color="0.6", linestyle=":", linewidth=0.8, zorder=0)
        lower = axes[NUM_COLUMNS:]
        for axis, name in zip(lower, names, strict=False):
            draw_algorithm(axis, name, [one for one in both if one.algorithm == name])
        limits = [limit for axis in lower[: len(names)] for limit in axis.get_ylim()]
        for axis in lower[: len(names)]:
            axis.set_ylim(min(limits), max(limits))
        for unused in lower[len(names) :]:
            unused.set_visible(False)
        entries = (
            axes[0].get_legend_handles_labels(),
            *(axis.get_legend_handles_labels() for axis in lower[: len(names)]),
        )
        by_label = {text: handle for of in entries for handle, text in zip(*of, strict=True)}
        figure.legend(by_label.values(), by_label, loc="outside lower center", ncols=4)
        text = CAPTION.format(
            at=results[0].evaluation_temperature, count=results[0].num_evaluations
        )
        figures.caption(figure, text)
        return figures.save(figure, out / "temperature")


def draw_top(
    axis: Axes,
    names: Sequence[str],
    results: Sequence[AtTemperature],
    value: Callable[[AtTemperature], Estimate | None],
) -> None:
    """A line an algorithm by the temperature of training."""
    shifts = dodge(len(names), [one.temperature for one in results])
    for index, name in enumerate(names):
        of = [one for one in results if one.algorithm == name]
        places = [one.temperature + shifts[index] for one in of]
        style = figures.line_style(index) | {"label": name, "marker": figures.marker(index)}
        draw_line(axis, places, list(map(value, of)), style)
    axis.set_xlabel("temperature of training")


def draw_best(axis: Axes, names: Sequence[str], results: Sequence[AtTemperature]) -> None:
    shifts = dodge(len(names), [one.temperature for one in results])
    for index, name in enumerate(names):
        of = [one for one in results if one.algorithm == name]
        style = figures.line_style(index) | {"linestyle": "--", "linewidth": 0.8}
        places = [one.temperature + shifts[index] for one in of]
        axis.plot(places, [one.best.value for one in of], **style)


def draw_algorithm(axis: Axes, name: str, results: Sequence[AtBoth]) -> None:
    """A line a training temperature, cold to hot."""
    temperatures = sorted({one.temperature for one in results})
    shifts = dodge(len(temperatures), [one.evaluation_temperature for one in results])
    for index, temperature in enumerate(temperatures):
        of = [one for one in results if one.temperature == temperature]
        color = mpl.colormaps["plasma"](0.85 * index / max(len(temperatures) - 1, 1))
        places = [one.evaluation_temperature + shifts[index] for one in of]
        style = {"color": color, "label": f"trained at {temperature:g}", "marker": "o"}
        draw_line(axis, places, [one.pass_at_1 for one in of], style)
        for place, one in zip(places, of, strict=True):
            if one.evaluation_temperature == temperature:
                score = one.pass_at_1.value
                axis.plot(place, score, "o", color=color, markersize=7, fillstyle="none")
    axis.set_xlabel("temperature of evaluation")
    axis.set_ylabel("test pass@1")
    axis.set_title(name)


def dodge(num_lines: int, places: Sequence[float]) -> list[float]:
    """How far to shift each of the lines, to either side."""
    width = DODGE * (max(places) - min(places))
    return [width * (index - (num_lines - 1) / 2) for index in range(num_lines)]


def draw_line(
    axis: Axes,
    places: Sequence[float],
    estimates: Sequence[Estimate | None],
    style: dict[str, Any],
) -> None:
    """One line with error bars; unknown points are left out."""
    known = [(x, one) for x, one in zip(places, estimates, strict=True) if one is not None]
    axis.plot([x for x, _ in known], [one.value for _, one in known], **style)
    bars = [(x, one.low, one.high) for x, one in known if one.low is not None]
    if bars:
        axis.vlines(*zip(*bars, strict=True), color=style["color"], linewidth=0.8)
