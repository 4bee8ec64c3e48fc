"""The page: its options, its sections, and how it stays closed to everything but itself."""

import argparse
import base64
import hashlib
import json
from collections.abc import Callable
from html import escape
from importlib import resources
from pathlib import Path

import pandas as pd

from analysis.frames import (
    Run,
    check_same_evaluation,
    check_same_problems,
    learning_curve,
    read_run,
)
from analysis.report.charts import accuracy_image, metrics_image, times_image
from analysis.report.costs import costs_table
from analysis.report.others import OTHERS, found_html, missing_html, search_folders
from analysis.report.results import environment_table, results_table
from analysis.report.rollouts import Data, Extent, viewer_data
from analysis.rollout_truths import truth_tables
from vineppo.errors import UserError
from vineppo.run_dir.files import write_atomic

# One script: what a file names, those after it use.
SCRIPTS = ("values.js", "chart.js", "tooltip.js", "viewer.js")
# (id in the address, heading, content)
Section = tuple[str, str, str]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations",
        default="ends",
        metavar="all|last|ends|spaced:N|N,N…",
        help="whose rollouts the page carries; default: ends, the first, the middle and the last",
    )
    parser.add_argument("--problems", type=int, default=16, help="shown of an iteration")
    parser.add_argument("--responses", type=int, default=8, help="shown of a problem")
    parser.add_argument(
        "--truth",
        nargs="+",
        action="extend",
        type=Path,
        metavar="DIR",
        help="the --out of ground-truth, for the viewer; default: --out, then each run's own",
    )
    parser.add_argument(
        "--with",
        nargs="+",
        action="extend",
        type=Path,
        dest="others",
        metavar="DIR",
        help="the --out of other analyses, to show; besides --out and the runs' own",
    )


def run(
    paths: list[Path],
    out: Path,
    iterations: str,
    problems: int,
    responses: int,
    truth: list[Path] | None,
    others: list[Path] | None,
) -> None:
    """Writes report.html. Prints a line a run and the path of the page."""
    if problems < 1 or responses < 1:
        raise UserError(
            f"--problems and --responses must be at least 1, got {problems} and {responses}"
        )
    folders = search_folders(out, others or [])
    tables = truth_tables(paths, truth or [], out)
    runs = [read_run(path) for path in paths]
    check_same_problems(runs)
    check_same_evaluation(runs)
    names = labels(runs)
    curves = [learning_curve(one) for one in runs]
    data = viewer_data(runs, names, Extent(iterations, problems, responses), tables)
    contents = {other: found_html(other, folders, paths) for other in OTHERS}
    found = [(other.name, other.heading, html) for other, html in contents.items() if html]
    missing = [other for other, html in contents.items() if not html]
    target = out / "report.html"
    more = missing_html(missing, paths, out) if missing else ""
    write_atomic(target, page(runs, names, curves, data, found, more).encode())
    for one, curve in zip(runs, curves, strict=True):
        start, end = curve["pass@1"].iloc[0], curve["pass@1"].iloc[-1]
        print(f"RUN {one.path} pass@1 {start:.3f} -> {end:.3f}")
    print(f"REPORT {target}")


def labels(runs: list[Run]) -> list[str]:
    """A name for each run that tells it from the others: its name, then seed, then directory."""
    for candidates in (
        [run.name for run in runs],
        [f"{run.name}, seed {run.seed}" for run in runs],
    ):
        if len(set(candidates)) == len(candidates):
            return candidates
    return [str(run.path) for run in runs]


def page(
    runs: list[Run],
    names: list[str],
    curves: list[pd.DataFrame],
    data: Data,
    found: list[Section],
    more: str,
) -> str:
    """The whole page; `data` is the rollout viewer's, `found` what other analyses came to, and
    `more` names those that came to nothing yet.

    Its content security policy lets nothing load and only the page's own script run.
    """
    title = "Runs: " + ", ".join(dict.fromkeys(one.name for one in runs))
    costs = times_image(runs, names) + costs_table(runs)
    sections = [
        ("results", "Results", results_table(runs, names, curves)),
        ("accuracy", "Accuracy on the test problems", accuracy_image(names, curves)),
        ("training", "Training", metrics_image(runs, names)),
        ("costs", "Costs: time and tokens", costs),
        *found,
        ("rollouts", "Rollouts", _viewer(data)),
        *([("more", "More analyses", more)] if more else []),
        ("environment", "Environment", _per_run(runs, names, environment_table)),
    ]
    script = f'"use strict";(() => {{\n{"".join(map(_asset, SCRIPTS))}}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    links = "".join(
        f'<a href="#{name}">{escape(heading.partition(":")[0])}</a>'
        for name, heading, _ in sections
    )
    body = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{content}</section>'
        for name, heading, content in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_asset('page.css')}</style></head>"
        f"<body><h1>{escape(title)}</h1><nav>{links}</nav>{body}"
        f"<script>{script}</script></body></html>\n"
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


def _per_run(runs: list[Run], names: list[str], content: Callable[[Run], str]) -> str:
    return "".join(
        f"<h3>{escape(name)}</h3>{content(one)}" for one, name in zip(runs, names, strict=True)
    )


def _asset(name: str) -> str:
    return resources.files("analysis.report").joinpath("web", name).read_text(encoding="utf-8")
