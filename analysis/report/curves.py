"""Logged results and metrics as HTML tables and figures. Texts of a run go through `escape`."""

import base64
from collections.abc import Collection, Iterable, Sequence
from html import escape

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import figures
from analysis.costs import cost_panels, points_of
from analysis.frames import Run
from analysis.tables import UNKNOWN, number

# By metric: the label of its axis.
TRAINING = {
    "reward/mean": "mean reward of rollouts",
    "kl/ref": "KL to reference (nats/token)",
    "rollout/response_length_mean": "response length (tokens)",
}
CRITIC = {
    "critic/explained_variance": "explained variance",
    "critic/within_problem_correlation": "correlation within problems",
    "critic/calibration_error": "calibration error",
    "critic/value_std": "SD of values",
    "critic/return_std": "SD of returns",
    "critic/loss": "loss",
}
METRICS = TRAINING | CRITIC
NUM_COLUMNS = 3
# Page pixels to an inch of a figure: its 8 pt text is then about as large as the page's.
PIXELS_PER_IN = 105


def results_table(runs: Sequence[Run], names: Sequence[str], curves: Sequence[pd.DataFrame]) -> str:
    rows = [
        {
            "run": name,
            "directory": str(run.path),
            "credit": str(run.config.get("credit", {}).get("kind", UNKNOWN)),
            "seed": UNKNOWN if run.seed is None else str(run.seed),
            "iterations": str(run.metrics["iteration"].iloc[-1]),
            "training time": number(run.logged("time/elapsed_s").iloc[-1, 0], ",.0f", " s"),
            "test pass@1 (95 % interval), start → end": (
                f"{_accuracy(curve.iloc[0])} → {_accuracy(curve.iloc[-1])}"
            ),
        }
        for run, name, curve in zip(runs, names, curves, strict=True)
    ]
    note = "The intervals are a bootstrap over test problems and do not cover the seed of the run."
    return table(rows, ["seed", "iterations", "training time"]) + f"<p>{escape(note)}</p>"


def accuracy_image(names: Sequence[str], curves: Sequence[pd.DataFrame]) -> str:
    """Single runs with their bands over problems, a panel a cost."""
    points = {
        cost: {name: points_of(curve, cost) for name, curve in zip(names, curves, strict=True)}
        for cost in ("iteration", "elapsed_s", "tokens_sampled")
    }
    with cost_panels(points, figures.method_labels(names)) as figure:
        return _image(figure, "pass@1 by iteration, training time and sampled tokens")


def metrics_image(runs: Sequence[Run], names: Sequence[str], wanted: Sequence[str]) -> str:
    """A panel a wanted metric that any of the runs logged."""
    if not (metrics := logged(runs, wanted)):
        return ""
    with figures.grid(len(metrics), NUM_COLUMNS) as (figure, axes):
        for axis, metric in zip(axes, metrics, strict=True):
            draw_metric(axis, runs, names, metric)
        figures.shared_legend(figure, axes[0])
        return _image(figure, f"{', '.join(METRICS[metric] for metric in metrics)} by iteration")


def logged(runs: Sequence[Run], metrics: Sequence[str]) -> list[str]:
    """Those that any of the runs has."""
    return [
        metric
        for metric in metrics
        if any(run.logged(metric)[metric].notna().any() for run in runs)
    ]


def draw_metric(axis: Axes, runs: Sequence[Run], names: Sequence[str], metric: str) -> None:
    """A metric by iteration, a line a run; long runs as a running mean over a pale raw line."""
    styles, labels = figures.method_styles(names), figures.method_labels(names)
    for run, name in zip(runs, names, strict=True):
        series, style = run.logged(metric)[metric].dropna(), styles[name] | {"marker": ""}
        reach = len(series) // 50
        if reach:
            axis.plot(series, color=style["color"], alpha=0.2, linewidth=0.6)
        axis.plot(figures.running_mean(series, reach), label=labels[name], **style)
    figures.whole_iterations(axis)
    axis.set_ylabel(METRICS[metric])


def table(rows: Sequence[dict[str, str]], numbers: Collection[str] | None = None) -> str:
    """A table of texts; the columns `numbers`, all but the first, stand to the right."""
    right = list(rows[0])[1:] if numbers is None else numbers

    def line(tag: str, cells: Iterable[str]) -> str:
        whole = zip(rows[0], cells, strict=True)
        classes = ((" class=number" if head in right else "", cell) for head, cell in whole)
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in classes)

    body = "".join(f"<tr>{line('td', row.values())}</tr>" for row in rows)
    head = f"<thead><tr>{line('th', rows[0])}</tr></thead>"
    return f"<div class=wide><table>{head}<tbody>{body}</tbody></table></div>"


def _image(figure: Figure, description: str) -> str:
    """A PNG within the page, in the size of its figure."""
    png = figures.render(figure)
    width = round(PIXELS_PER_IN * int.from_bytes(png[16:20], "big") / figures.DOTS_PER_IN)
    uri = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return f'<img alt="{escape(description)}" width="{width}" src="{uri}">'


def _accuracy(point: pd.Series) -> str:
    interval = "" if pd.isna(point.low) else f" ({point.low:.3f}–{point.high:.3f})"
    return f"{point['pass@1']:.3f}{interval}"
