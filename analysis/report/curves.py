"""What the runs logged, as HTML: figures that the page carries within itself, and tables.

Texts of a run go through `escape`.
"""

import base64
from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import TypeVar

import numpy as np
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
SPREADS = ("critic/value_std", "critic/return_std")
NUM_COLUMNS = 3
MAX_POINTS = 1000  # of a line
# Of the page to an inch of a figure: its 8 pt text is then about as large as the page's.
PIXELS_PER_IN = 105
COST_NOTE = (
    "Means over the runs of a method, of whole runs up to their last iteration. Prompt tokens are "
    "those that the engine was given to go on from: questions, and prefixes of responses. Training "
    "time leaves evaluations out; sampled tokens/s are those of rollouts and values by it."
)


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
    columns = ["num_problems", "samples_per_problem"]
    sizes = dict.fromkeys(tuple(curve.iloc[-1][columns].astype(int)) for curve in curves)
    tested = " or ".join(f"{problems} test problems, {n} sample(s) each" for problems, n in sizes)
    return table(rows, ["seed", "iterations", "training time"]) + paragraph(
        f"{tested}; the intervals are a bootstrap over problems and do not cover the seed of the "
        "run."
    )


def costs_table(runs: Sequence[Run]) -> str:
    """A line a method; runs of one name are one method."""
    tokens = ["tokens/rollout", "tokens/values", "tokens/prompt", "tokens/prefix_cached"]
    costs = []
    for run in runs:
        logged = run.logged(*tokens, "time/elapsed_s", "memory/peak_gib")
        cost = {"method": run.name, "iterations": run.metrics["iteration"].iloc[-1]}
        cost |= logged[tokens].sum(skipna=False)  # of some iterations only, it is unknown
        cost["elapsed_s"] = logged["time/elapsed_s"].iloc[-1]
        costs.append(cost | {"memory_gib": logged["memory/peak_gib"].max()})
    rows = []
    for name, method in pd.DataFrame(costs).groupby("method", sort=False):
        mean = method.drop(columns="method").mean(skipna=False)
        rollouts, values, prompts, cached = mean[tokens]
        sampled = rollouts + (0 if pd.isna(values) else values)
        iterations = dict.fromkeys((method["iterations"].min(), method["iterations"].max()))
        elapsed_s = mean["elapsed_s"]
        rows.append(
            {
                "method": str(name),
                "runs": str(len(method)),
                "iterations": "–".join(map(str, iterations)),
                "tokens sampled for rollouts": number(rollouts, ",.0f"),
                "… for values": number(values, ",.0f"),
                "prompt tokens computed": number(prompts - cached, ",.0f"),
                "… from the prefix cache": number(cached, ",.0f"),
                "training time": number(elapsed_s, ",.0f", " s"),
                "sampled tokens/s": number(sampled / elapsed_s if elapsed_s else None, ",.0f"),
                "peak memory": number(mean["memory_gib"], ".2f", " GiB"),
            }
        )
    return table(rows) + paragraph(COST_NOTE)


def accuracy_image(names: Sequence[str], curves: Sequence[pd.DataFrame]) -> str:
    """Single runs with their bands over problems, a panel a cost."""
    points = {
        cost: {name: points_of(curve, cost) for name, curve in zip(names, curves, strict=True)}
        for cost in ("iteration", "elapsed_s", "tokens_sampled")
    }
    with cost_panels(points, figures.method_labels(names)) as figure:
        return _image(figure, "pass@1 by iteration, training time and sampled tokens")


def metrics_image(runs: Sequence[Run], names: Sequence[str], wanted: Sequence[str]) -> str:
    """A panel a wanted metric that any of the runs logged; standard deviations share their axis."""
    if not (metrics := logged(runs, wanted)):
        return ""
    with figures.grid(len(metrics), NUM_COLUMNS) as (figure, axes):
        for axis, metric in zip(axes, metrics, strict=True):
            draw_metric(axis, runs, names, metric)
        figures.same_ylim([axes[metrics.index(of)] for of in SPREADS if of in metrics])
        figures.shared_legend(figure, axes[0])
        return _image(figure, f"{', '.join(METRICS[metric] for metric in metrics)} by iteration")


def logged(runs: Sequence[Run], metrics: Sequence[str]) -> list[str]:
    """Those that any of the runs has."""
    return [metric for metric in metrics if any(len(run.series(metric)) for run in runs)]


def draw_metric(axis: Axes, runs: Sequence[Run], names: Sequence[str], metric: str) -> None:
    """A metric by iteration, a line a run; long runs as a running mean over a pale raw line.

    Both of means over neighbours, where a run is so long that the page would grow with it.
    """
    styles, labels = figures.method_styles(names), figures.method_labels(names)
    for run, name in zip(runs, names, strict=True):
        series, style = run.series(metric), styles[name] | {"marker": ""}
        reach = len(series) // 50
        if reach:
            axis.plot(thinned(series), color=style["color"], alpha=0.2, linewidth=0.6)
        axis.plot(thinned(running_mean(series, reach)), label=labels[name], **style)
    figures.whole_iterations(axis)
    axis.set_ylabel(METRICS[metric])


def running_mean(series: pd.Series, reach: int) -> pd.Series:
    """Mean of each value and those up to `reach` away on either side that exist."""
    return series.rolling(2 * reach + 1, center=True, min_periods=1).mean()


Rows = TypeVar("Rows", pd.Series, pd.DataFrame)


def thinned(rows: Rows) -> Rows:
    """Means of neighbours, by the first of their iterations: so many that `MAX_POINTS` are left.

    With `MAX_POINTS` 2, values 1, 2, 3 at iterations 5, 6, 7 are 1.5 at 5 and 3 at 7.
    """
    size = -(-len(rows) // MAX_POINTS)
    means = rows.groupby(np.arange(len(rows)) // max(size, 1)).mean()
    return means.set_axis(rows.index[:: max(size, 1)])


def image(png: bytes, description: str) -> str:
    """A PNG of `figures.save`, in the size of its figure."""
    width = round(PIXELS_PER_IN * int.from_bytes(png[16:20], "big") / figures.DOTS_PER_IN)
    uri = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    return f'<img alt="{escape(description)}" width="{width}" src="{uri}">'


def table(rows: Sequence[dict[str, str]], numbers: Collection[str] | None = None) -> str:
    """A table of texts; the columns `numbers`, all but the first, stand to the right."""
    heads = list(rows[0])
    right = heads[1:] if numbers is None else numbers

    def line(tag: str, cells: Iterable[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if head in right else ''}>{escape(cell)}</{tag}>"
            for head, cell in zip(heads, cells, strict=True)
        )

    body = "".join(f"<tr>{line('td', row.values())}</tr>" for row in rows)
    return (
        f"<div class=wide><table><thead><tr>{line('th', heads)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _image(figure: Figure, description: str) -> str:
    return image(figures.render(figure), description)


def _accuracy(point: pd.Series) -> str:
    interval = "" if pd.isna(point.low) else f" ({point.low:.3f}–{point.high:.3f})"
    return f"{point['pass@1']:.3f}{interval}"
