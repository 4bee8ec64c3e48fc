"""`learning-curves`: pass@1 against iterations, training time and sampled tokens.

Runs of one name that differ in their seed alone are one curve, the interquartile mean over seeds.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import figures
from analysis.intervals import NUM_SEED_RESAMPLES
from analysis.methods import TABLE_NAME, Method, method_curve, read_methods
from analysis.reading import CurvePoint
from analysis.summary import summarize, summary_rows
from analysis.summary_markdown import summary_markdown
from analysis.tables import write_table
from vineppo.run_dir.atomic import write_atomic

Cost = Callable[[CurvePoint], float | None]
CAPTION = (
    "line: interquartile mean over seeds; band: 95 % bootstrap over seeds "
    f"({NUM_SEED_RESAMPLES:,} resamples), of one seed over test problems"
)


def run(paths: list[Path], out: Path) -> None:
    """Writes learning_curves.csv, .png and .svg, summary.csv and summary.md; prints their paths.

    Each path is a run directory, or a directory whose learning_curves.csv is drawn again.
    """
    methods = read_methods(paths)
    tables = write_tables(methods, out)
    with figures.panels(1, 3) as (figure, axes):
        draw_curves(figure, axes, list(map(label, methods)), list(map(method_curve, methods)))
        figure.suptitle(CAPTION, fontsize=8)
        written = figures.save(figure, out / "learning_curves")
    for path in [*written, *tables]:
        print(path)


def write_tables(methods: list[Method], out: Path) -> list[Path]:
    """Writes the evaluations of every run and both summaries; returns their paths."""
    summaries = summarize(methods)
    rows = [row for method in methods for of in method.rows_by_seed.values() for row in of]
    paths = [out / TABLE_NAME, out / "summary.csv", out / "summary.md"]
    write_table(paths[0], [dataclasses.asdict(row) for row in rows])
    write_table(paths[1], summary_rows(summaries))
    write_atomic(paths[2], summary_markdown(methods, summaries).encode())
    return paths


def label(method: Method) -> str:
    """The method's name and its seeds, on which it depends what its band is about."""
    num_seeds = len(method.rows_by_seed)
    return f"{method.name} ({num_seeds} seed{'s' if num_seeds > 1 else ''})"


def draw_curves(
    figure: Figure, axes: list[Axes], names: list[str], curves: list[list[CurvePoint]]
) -> None:
    """Three panels of the same curves with their bands, each against another cost."""
    points = [point for curve in curves for point in curve]
    time_unit, time_name = _time_unit(max(point.elapsed_s or 0 for point in points))
    token_unit, token_name = _token_unit(max(point.tokens_sampled or 0 for point in points))
    costs: list[tuple[str, Cost]] = [
        ("iteration", lambda point: point.iteration),
        (f"training time ({time_name})", lambda point: _scaled(point.elapsed_s, time_unit)),
        (f"sampled tokens{token_name}", lambda point: _scaled(point.tokens_sampled, token_unit)),
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
