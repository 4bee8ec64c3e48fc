"""The page: its options, its sections, and how it stays closed to everything but itself.

What other analyses came to on the runs is looked for as files, so that a page needs neither their
code nor their samples again.
"""

import argparse
import base64
import hashlib
import json
import shlex
import string
from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from analysis import ANALYSES, options
from analysis.frames import (
    Run,
    check_same_evaluation,
    check_same_problems,
    learning_curve,
    read_run,
)
from analysis.report import curves as drawn
from analysis.report.curves import paragraph, svg_image, table
from analysis.report.rollouts import Data, Extent, viewer_data
from analysis.stats.bootstrap import Estimate
from analysis.summary import FILE_NAME, UNKNOWN, interval, read_summary
from analysis.truth import truth_tables
from vineppo.errors import UserError
from vineppo.run_dir.files import named_errors, write_atomic

# One script: what a file names, those after it use.
SCRIPTS = ("values.js", "chart.js", "tooltip.js", "viewer.js")
MAX_OPEN_ROWS = 12  # a longer table is folded
# The headings of other analyses, by name on the command line.
OTHERS = {
    "learning-curves": "Learning curves over seeds",
    "compare": "Methods compared",
    "power": "What scores vary by",
    "ground-truth": "Ground truth",
    "value-accuracy": "Calibration: how good the values are",
    "action-ranking": "Ranking: which next step is best",
    "value-diagnostics": "The critic along the response",
    "value-health": "Learned values by iteration",
    "advantages": "Advantages",
    "gradient-variance": "Gradient variance",
    "kl-efficiency": "KL: what the distance from the starting policy bought",
    "temperature": "Temperature",
}
# Figures of an analysis whose names do not begin with its own.
FURTHER_FIGURES = {"learning-curves": ("time_to_target", "phases")}
# (id in the address, heading, content)
Section = tuple[str, str, str]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--iterations",
        default="ends",
        metavar=options.ITERATIONS,
        help="whose rollouts the page carries; ends: the first, the middle and the last",
    )
    options.add_numbers(
        parser, problems=(16, "shown of an iteration"), responses=(8, "shown of a problem")
    )
    folders: dict[str, Any] = {"nargs": "+", "action": "extend", "type": Path, "metavar": "DIR"}
    parser.add_argument(
        "--truth",
        default=[],
        help="the --out of ground-truth, for the viewer; without: --out, then each run's own",
        **folders,
    )
    parser.add_argument(
        "--with",
        dest="others",
        default=[],
        help="the --out of other analyses, to show; besides --out and the runs' own",
        **folders,
    )


def run(
    paths: list[Path],
    out: Path,
    iterations: str,
    truth: list[Path],
    others: list[Path],
    **shown: int,
) -> list[str]:
    """Writes report.html; returns a line a run and the path of the page."""
    options.check_least(shown, problems=1, responses=1)
    for folder in others:
        if not folder.is_dir():
            raise UserError(f"--with {folder} is no directory")
    tables = truth_tables(paths, truth, out)
    runs = [read_run(path) for path in paths]
    check_same_problems(runs)
    check_same_evaluation(runs)
    names = labels(runs)
    curves = [learning_curve(run) for run in runs]
    data = viewer_data(
        runs, names, Extent(iterations, shown["problems"], shown["responses"]), tables
    )
    contents = {name: other_html(name, [out, *others], paths) for name in OTHERS}
    missing = [name for name, html in contents.items() if not html]
    sections = [
        ("results", "Results", drawn.results_table(runs, names, curves)),
        ("accuracy", "Accuracy on the test problems", drawn.accuracy_image(names, curves)),
        ("training", "Training", drawn.metrics_image(runs, names, [*drawn.TRAINING])),
        ("critic", "Critic health", drawn.metrics_image(runs, names, [*drawn.CRITIC])),
        (
            "costs",
            "Costs: time and tokens",
            drawn.times_image(runs, names) + drawn.costs_table(runs),
        ),
        *((name, OTHERS[name], html) for name, html in contents.items() if html),
        ("rollouts", "Rollouts", _viewer(data)),
        *([("more", "More analyses", missing_html(missing, paths, out))] if missing else []),
        ("environment", "Environment", "".join(map(_environment, runs, names))),
    ]
    title = "Runs: " + ", ".join(dict.fromkeys(run.name for run in runs))
    shown_sections = [section for section in sections if section[2]]
    write_atomic(out / "report.html", page(title, shown_sections).encode())
    ends = [curve["pass@1"].iloc[[0, -1]] for curve in curves]
    return [
        *(
            f"RUN {path} pass@1 {start:.3f} -> {end:.3f}"
            for path, (start, end) in zip(paths, ends, strict=True)
        ),
        f"REPORT {out / 'report.html'}",
    ]


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
    links = "".join(
        f'<a href="#{name}">{escape(heading.partition(":")[0])}</a>'
        for name, heading, _ in sections
    )
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


def other_html(name: str, folders: Sequence[Path], run_paths: Sequence[Path]) -> str:
    """Its figures and numbers from every folder that holds some; empty where none does."""
    candidates = [
        *(place for folder in folders for place in (folder, folder / name)),
        *(path / "analysis" / name for path in run_paths),
    ]
    places = {path.resolve(): path for path in candidates}  # the same one once
    content = "".join(_content(name, path) for path in places.values())
    return paragraph(f"{name}: {ANALYSES[name]}.") + content if content else ""


def missing_html(missing: Sequence[str], run_paths: Sequence[Path], out: Path) -> str:
    """A line for each analysis that is not there, and the command that makes it."""
    runs = shlex.join(map(str, run_paths))
    command = f"python -m analysis NAME {runs} --out {shlex.quote(str(out))}"
    lines = "".join(
        f"<li><code>{escape(name)}</code> not computed: {escape(ANALYSES[name])}.</li>"
        for name in missing
    )
    return (
        f"<p>This page shows them too once they are there; make one with <code>{escape(command)}"
        f"</code>, NAME being one of these, and the report again.</p><ul>{lines}</ul>"
    )


def summary_rows(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A nested summary as rows: the way to them, and their numbers by name.

    {"n": 3, "critic": {"bias": 0.5}} are the rows ("", {"n": 3}) and ("critic", {"bias": 0.5}).
    """
    numbers = {key: value for key, value in node.items() if _fits_a_cell(value)}
    if numbers:
        yield path, numbers
    for key, value in node.items():
        if key not in numbers:
            items = value.items() if isinstance(value, dict) else enumerate(value, start=1)
            inner = {str(name): item for name, item in items}
            yield from summary_rows(inner, f"{path} / {key}" if path else key)


def _content(name: str, folder: Path) -> str:
    drawn = sorted(folder.glob(f"{name.replace('-', '_')}*.svg"))
    further = (folder / f"{figure}.svg" for figure in FURTHER_FIGURES.get(name, ()))
    drawn += [path for path in further if path.exists()]
    summary = read_summary(folder / FILE_NAME).get(name, {})
    if not drawn and not summary:
        return ""
    images = []
    for path in drawn:
        with named_errors("read", path):
            images.append(svg_image(path.read_bytes(), path.stem.replace("_", " ")))
    return f"<p class=source>{escape(str(folder))}</p>{''.join(images)}{_summary_tables(summary)}"


def _summary_tables(summary: dict[str, Any]) -> str:
    """The rows that have the same columns are one table."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for way, numbers in summary_rows(summary):
        texts = {key.replace("_", " "): _text(value) for key, value in numbers.items()}
        groups.setdefault(tuple(numbers), []).append({"": way} | texts)
    tables = []
    for rows in groups.values():
        made = table(rows)
        if len(rows) > MAX_OPEN_ROWS:
            made = f"<details><summary>{len(rows)} rows</summary>{made}</details>"
        tables.append(made)
    return "".join(tables)


def _fits_a_cell(value: Any) -> bool:
    """Whether it is a number or text, an estimate with its interval, or a list of these."""
    if isinstance(value, dict):
        return set(value) == {"value", "low", "high"}
    return not isinstance(value, list) or not any(isinstance(item, dict | list) for item in value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        # Blanks that do not break hold the interval together.
        return interval(Estimate(**value), ".4g").replace(" to ", "\u00a0to\u00a0")
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return UNKNOWN if value is None else str(value)


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
    rows = "".join(
        f"<tr><td>{escape(key)}</td><td><pre>{escape(_plain(value))}</pre></td></tr>"
        for key, value in run.environment.items()
    )
    return f"<h3>{escape(name)}</h3><table>{rows}</table>"


def _plain(value: object) -> str:
    """Tables as lines of `key: value`, lists of words as a line, the rest as JSON."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value) or UNKNOWN
    return value if isinstance(value, str) else json.dumps(value)


def _asset(name: str) -> str:
    return resources.files("analysis.report").joinpath("web", name).read_text(encoding="utf-8")
