"""The page: its options, its sections, and how it stays closed to everything but itself."""

import argparse
import base64
import hashlib
import json
import string
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path

from analysis import options
from analysis.frames import (
    Run,
    check_same_evaluation,
    check_same_problems,
    learning_curve,
    read_run,
)
from analysis.report import curves as drawn
from analysis.report.viewer import Data, Extent, viewer_data
from analysis.truth import truth_tables
from vineppo.run_dir import write_atomic

# One script: what a file names, those after it use.
SCRIPTS = ("values.js", "chart.js", "tooltip.js", "viewer.js")
# (id in the address, heading, content)
Section = tuple[str, str, str]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations",
        default="ends",
        metavar=options.ITERATIONS,
        help="Show the rollouts of these iterations. ends: the first, the middle and the last.",
    )
    options.add_numbers(
        parser,
        problems=(16, "Show so many problems of an iteration."),
        responses=(8, "Show so many responses of a problem."),
    )
    options.add_truth(parser)


def run(
    paths: list[Path], out: Path, iterations: str, truth: list[Path], **shown: int
) -> list[str]:
    """Writes report.html; returns a line a run and the path of the page."""
    options.check_least(shown, problems=1, responses=1)
    tables = truth_tables(paths, truth, out)
    runs = [read_run(path) for path in paths]
    check_same_problems(runs)
    check_same_evaluation(runs)
    names = labels(runs)
    curves = [learning_curve(run) for run in runs]
    data = viewer_data(
        runs, names, Extent(iterations, shown["problems"], shown["responses"]), tables
    )
    sections = [
        ("results", "Results", drawn.results_table(runs, names, curves)),
        ("accuracy", "Accuracy on the test problems", drawn.accuracy_image(names, curves)),
        ("training", "Training", drawn.metrics_image(runs, names, [*drawn.TRAINING])),
        ("critic", "Critic health", drawn.metrics_image(runs, names, [*drawn.CRITIC])),
        ("rollouts", "Rollouts", _viewer(data)),
        ("environment", "Environment", "".join(map(_environment, runs, names))),
    ]
    title = "Runs: " + ", ".join(dict.fromkeys(run.name for run in runs))
    shown_sections = [section for section in sections if section[2]]
    write_atomic(out / "report.html", page(title, shown_sections).encode())
    lines = []
    for path, curve in zip(paths, curves, strict=True):
        start, end = curve["pass@1"].iloc[[0, -1]]
        lines.append(f"RUN {path} pass@1 {start:.3f} -> {end:.3f}")
    return [*lines, f"REPORT {out / 'report.html'}"]


def labels(runs: Sequence[Run]) -> list[str]:
    """A name for each run that tells it from the others: its name, then seed, then directory."""
    names = [run.name for run in runs]
    seeded = [f"{run.name}, seed {run.seed}" for run in runs]
    for candidates in (names, seeded):
        if len(set(candidates)) == len(runs):
            return candidates
    return [str(run.path) for run in runs]


def page(title: str, sections: Sequence[Section]) -> str:
    """The whole page.

    Its content security policy lets nothing load and only the page's own script run.
    """
    script = f'"use strict";(() => {{\n{"".join(map(_asset, SCRIPTS))}}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{content}</section>'
        for name, heading, content in sections
    )
    return string.Template(_asset("page.html")).substitute(
        digest=digest,
        title=escape(title),
        style=_asset("page.css"),
        links=links,
        body=body,
        script=script,
    )


def script_json(data: Data) -> str:
    """JSON that may stand in a script element: no "<" in it can end the element or hide its end."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _viewer(data: Data) -> str:
    return (
        f'<script type="application/json" id="rollout-data">{script_json(data)}</script>'
        f"{_asset('viewer.html')}"
    )


def _environment(run: Run, name: str) -> str:
    text = json.dumps(run.environment, indent=1, ensure_ascii=False)
    return f"<h3>{escape(name)}</h3><pre>{escape(text)}</pre>"


def _asset(name: str) -> str:
    return resources.files("analysis.report").joinpath("web", name).read_text(encoding="utf-8")
