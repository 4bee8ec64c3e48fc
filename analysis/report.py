"""`report`: one self-contained HTML page on a few runs. It loads nothing and runs no script."""

import json
from collections.abc import Callable
from html import escape
from pathlib import Path

from matplotlib.figure import Figure

from analysis import figures
from analysis.learning_curves import draw_curves
from analysis.reading import CurvePoint, Run, labels, learning_curve, read_run
from analysis.rollout_viewer import rollouts_html
from analysis.training_curves import draw_metric, draw_time_shares, shown_metrics
from vineppo.run_dir.atomic import write_atomic

LEGEND_WIDTH_IN = 1.0
NUM_COLUMNS = 3
_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68em; margin: 2em auto; padding: 0 1em;
  color: #222; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
img { max-width: 100%; display: block }
table { border-collapse: collapse } td, th { padding: .2em 1em .2em 0; text-align: left;
  vertical-align: top } th { border-bottom: 1px solid #999 }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3em 0; font-size: .9em }
pre.prompt { color: #555; border-left: 3px solid #ccc; padding-left: .8em }
summary { cursor: pointer; font-weight: 600; margin-top: .8em }
.response { margin: .6em 0 .6em 1em } .reward { color: #555; font-size: .85em }
.step { border-left: 1px solid #888; padding: .1em 0 }
"""


def run(paths: list[Path], out: Path) -> None:
    """Writes report.html. Prints a line a run and the path of the page."""
    runs = [read_run(path) for path in paths]
    curves = [learning_curve(one) for one in runs]
    target = out / "report.html"
    write_atomic(target, page(runs, curves).encode())
    for one, curve in zip(runs, curves, strict=True):
        start, end = curve[0].pass_at_1, curve[-1].pass_at_1
        print(f"RUN {one.path} pass@1 {start:.3f} -> {end:.3f}")
    print(f"REPORT {target}")


def page(runs: list[Run], curves: list[list[CurvePoint]]) -> str:
    """The whole page."""
    names = labels(runs)
    title = "Runs: " + ", ".join(dict.fromkeys(one.name for one in runs))
    sections = [
        ("Results", _results_table(runs, names, curves)),
        ("Accuracy on the test problems", _accuracy(names, curves)),
        ("Training", _training(runs, names)),
        ("Where the time goes", _times(runs, names)),
        ("Rollouts", _per_run(runs, names, rollouts_html)),
        ("Environment", _per_run(runs, names, _environment_table)),
    ]
    body = "".join(f"<h2>{heading}</h2>{content}" for heading, content in sections)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{_CSS}</style><h1>{escape(title)}</h1>{body}</html>\n"
    )


def _results_table(runs: list[Run], names: list[str], curves: list[list[CurvePoint]]) -> str:
    head = (
        "<tr><th>run<th>directory<th>credit<th class=number>seed<th class=number>iterations"
        "<th class=number>training time<th>test pass@1 (95 % interval), start → end</tr>"
    )
    rows = []
    for one, name, curve in zip(runs, names, curves, strict=True):
        credit = one.config.get("credit", {}).get("kind", "–")
        seconds = one.metrics[-1].get("time/elapsed_s")
        rows.append(
            f"<tr><td>{escape(name)}<td>{escape(str(one.path))}<td>{escape(credit)}"
            f"<td class=number>{one.seed}<td class=number>{one.metrics[-1]['iteration']}"
            f"<td class=number>{'–' if seconds is None else f'{seconds:,.0f} s'}"
            f"<td>{_accuracy_text(curve[0])} → {_accuracy_text(curve[-1])}</tr>"
        )
    last = curves[0][-1]
    note = (
        f"<p>{last.num_problems} test problems, {last.samples_per_problem} sample(s) each; the "
        "intervals are a bootstrap over problems and do not cover the seed of the run.</p>"
    )
    return f"<table>{head}{''.join(rows)}</table>{note}"


def _accuracy_text(point: CurvePoint) -> str:
    if point.low is None:
        return f"{point.pass_at_1:.3f}"
    return f"{point.pass_at_1:.3f} ({point.low:.3f}–{point.high:.3f})"


def _accuracy(names: list[str], curves: list[list[CurvePoint]]) -> str:
    with figures.panels(1, 3) as (figure, axes):
        draw_curves(figure, axes, names, curves)
        return _image(figure, "pass@1 by iteration, training time and sampled tokens")


def _training(runs: list[Run], names: list[str]) -> str:
    metrics = shown_metrics(runs)
    num_rows = -(-len(metrics) // NUM_COLUMNS)
    with figures.panels(num_rows, NUM_COLUMNS) as (figure, axes):
        for unused in axes[len(metrics) :]:
            unused.set_visible(False)
        for axis, (metric, label) in zip(axes[: len(metrics)], metrics, strict=True):
            draw_metric(axis, runs, names, metric, label)
        figures.shared_legend(figure, axes[0])
        return _image(figure, f"{', '.join(label for _, label in metrics)} by iteration")


def _times(runs: list[Run], names: list[str]) -> str:
    num_columns = min(len(runs), NUM_COLUMNS)
    num_rows = -(-len(runs) // num_columns)
    with figures.panels(num_rows, num_columns, LEGEND_WIDTH_IN) as (figure, axes):
        for unused in axes[len(runs) :]:
            unused.set_visible(False)
        draw_time_shares(figure, axes[: len(runs)], runs, names)
        return _image(figure, "share of each phase in an iteration's time")


def _image(figure: Figure, description: str) -> str:
    width_in, _ = figure.get_size_inches()
    # An inch of the figure is 7 em of the page: its 8 pt text is then about as large as the page's.
    style = f"width:{7 * width_in:.0f}em"
    return f'<img alt="{description}" style="{style}" src="{figures.data_uri(figure)}">'


def _per_run(runs: list[Run], names: list[str], content: Callable[[Run], str]) -> str:
    return "".join(
        f"<h3>{escape(name)}</h3>{content(one)}" for one, name in zip(runs, names, strict=True)
    )


def _environment_table(one: Run) -> str:
    rows = "".join(
        f"<tr><td>{escape(key)}<td><pre>{escape(_plain(value))}</pre></tr>"
        for key, value in one.environment.items()
    )
    return f"<table>{rows}</table>"


def _plain(value: object) -> str:
    """Tables as lines of `key: value`, lists of words as a line, the rest as JSON."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value) or "–"
    return value if isinstance(value, str) else json.dumps(value)
