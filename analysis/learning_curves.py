"""`learning-curves`: pass@1 against iterations, training time and sampled tokens."""

import csv
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import figures
from analysis.reading import CurvePoint, Run, labels, learning_curve
from vineppo.run_dir.atomic import write_atomic

Cost = Callable[[CurvePoint], float | None]


def run(runs: list[Run], out: Path) -> None:
    """Writes learning_curves.csv, .png and .svg; prints their paths."""
    curves = [learning_curve(one) for one in runs]
    table = out / "learning_curves.csv"
    write_atomic(table, curve_table(runs, curves).encode())
    with figures.panels(1, 3) as (figure, axes):
        draw_curves(figure, axes, labels(runs), curves)
        for path in [table, *figures.save(figure, out / "learning_curves")]:
            print(path)


def curve_table(runs: list[Run], curves: list[list[CurvePoint]]) -> str:
    """One CSV line an evaluation: the run, then the fields of `CurvePoint`."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    fields = [field.name.replace("pass_at_1", "pass@1") for field in dataclasses.fields(CurvePoint)]
    writer.writerow(["run_dir", "name", "seed", *fields])
    for one, points in zip(runs, curves, strict=True):
        for point in points:
            writer.writerow([one.path, one.name, one.seed, *dataclasses.astuple(point)])
    return buffer.getvalue()


def draw_curves(
    figure: Figure, axes: list[Axes], names: list[str], curves: list[list[CurvePoint]]
) -> None:
    """Three panels of the same curves with their bands, each against another cost."""
    points = [point for curve in curves for point in curve]
    time_unit, time_name = _time_unit(max(point.elapsed_s or 0 for point in points))
    token_unit, token_name = _token_unit(max(point.sampled_tokens or 0 for point in points))
    costs: list[tuple[str, Cost]] = [
        ("iteration", lambda point: point.iteration),
        (f"training time ({time_name})", lambda point: _scaled(point.elapsed_s, time_unit)),
        (f"sampled tokens{token_name}", lambda point: _scaled(point.sampled_tokens, token_unit)),
    ]
    for axis, (label, cost) in zip(axes, costs, strict=True):
        for index, (name, curve) in enumerate(zip(names, curves, strict=True)):
            draw_curve(axis, index, name, curve, cost)
        axis.set_xlabel(label)
        axis.set_xlim(left=0)
    figures.whole_iterations(axes[0])
    axes[0].set_ylabel("test pass@1 (95 % band)")
    figures.shared_legend(figure, axes[0])


def draw_curve(axis: Axes, index: int, name: str, curve: list[CurvePoint], cost: Cost) -> None:
    """One line with its band of 95 % intervals; evaluations of unknown cost are left out."""
    known = [(x, point) for point in curve if (x := cost(point)) is not None]
    style = figures.line_style(index)
    xs, ys = [x for x, _ in known], [point.pass_at_1 for _, point in known]
    axis.plot(xs, ys, marker=figures.marker(index), label=name, clip_on=False, **style)
    banded = [(x, p.low, p.high) for x, p in known if p.low is not None and p.high is not None]
    if banded:
        xs_banded, lows, highs = zip(*banded, strict=True)
        axis.fill_between(xs_banded, lows, highs, color=style["color"], alpha=0.18, linewidth=0)


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _time_unit(longest_s: float) -> tuple[float, str]:
    if longest_s < 300:
        return 1, "s"
    return (60, "min") if longest_s < 3 * 3600 else (3600, "h")


def _token_unit(most: float) -> tuple[float, str]:
    if most < 1e4:
        return 1, ""
    return (1e3, " (thousands)") if most < 1e6 else (1e6, " (millions)")
