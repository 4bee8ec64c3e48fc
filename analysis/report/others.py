"""What other analyses have found about the runs: their figures, and the numbers of their summary.

They are looked for as files, so that a page needs neither their code nor their samples again.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from analysis.report.charts import svg_image
from analysis.report.markup import ABSENT, paragraph, table
from analysis.summary import FILE_NAME
from vineppo.errors import UserError
from vineppo.run_dir.files import named_errors

MAX_OPEN_ROWS = 12  # a longer table is folded


@dataclass(frozen=True)
class Other:
    """An analysis by its name on the command line, and what a reader may look for in it.

    `figures` are those whose names do not begin with its own.
    """

    name: str
    heading: str
    question: str
    figures: tuple[str, ...] = ()

    def drawn(self, folder: Path) -> list[Path]:
        """Its figures in a folder."""
        own = folder.glob(f"{self.name.replace('-', '_')}*.svg")
        further = (folder / f"{name}.svg" for name in self.figures)
        return [*sorted(own), *(path for path in further if path.exists())]


OTHERS = (
    Other(
        "learning-curves",
        "Learning curves over seeds",
        "The seeds of a method as one curve with its interval, and how the methods compare.",
        ("time_to_target", "phases"),
    ),
    Other(
        "ground-truth",
        "Ground truth",
        "The values of states by many fresh continuations: what the estimates are held against.",
    ),
    Other(
        "value-accuracy",
        "Calibration: how good the values are",
        "Values of the critic and of K continuations against the ground truth.",
    ),
    Other(
        "action-ranking",
        "Ranking: which next step is best",
        "Whether the values put alternative next steps in their true order.",
    ),
    Other(
        "value-diagnostics",
        "The critic along the response",
        "Its values, advantages and explained variance by part of the response.",
    ),
    Other("advantages", "Advantages", "How they are spread, and where the critical steps are."),
    Other(
        "gradient-variance",
        "Gradient variance",
        "The noise of each estimator's policy gradient on the same rollouts.",
    ),
    Other(
        "kl-efficiency",
        "KL: what the distance from the starting policy bought",
        "pass@1 against the KL divergence to the starting policy, along training.",
    ),
    Other("temperature", "Temperature", "pass@1 by the temperature of training and of evaluation."),
)


def search_folders(out: Path, given: Sequence[Path]) -> list[Path]:
    """Where results may lie. Raises `UserError` for a given folder that is missing."""
    for folder in given:
        if not folder.is_dir():
            raise UserError(f"--with {folder} is no directory")
    return [out, *given]


def found_html(other: Other, folders: Sequence[Path], run_paths: Sequence[Path]) -> str:
    """Its figures and numbers from every folder that holds some; empty where none does."""
    candidates = [
        *(place for folder in folders for place in (folder, folder / other.name)),
        *(path / "analysis" / other.name for path in run_paths),
    ]
    places = {path.resolve(): path for path in candidates}  # the same one once
    content = "".join(_content(other, path) for path in places.values())
    return paragraph(other.question) + content if content else ""


def missing_html(missing: Sequence[Other], run_paths: Sequence[Path], out: Path) -> str:
    """A line for each analysis that was not found, and the command that makes it."""
    runs = " ".join(shlex.quote(str(path)) for path in run_paths)
    command = f"python -m analysis NAME {runs} --out {shlex.quote(str(out))}"
    lines = "".join(
        f"<li><code>{escape(other.name)}</code> not computed. {escape(other.question)}</li>"
        for other in missing
    )
    return (
        f"<p>This page shows them too once they are there; make one with <code>{escape(command)}"
        f"</code>, NAME being one of these, and the report again.</p><ul>{lines}</ul>"
    )


def summary_rows(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A nested summary as rows: the way to them, and their numbers by name.

    {"n": 3, "critic": {"bias": 0.5}} are the rows ("", {"n": 3}) and ("critic", {"bias": 0.5}).
    """
    numbers = {key: value for key, value in node.items() if _is_number(value)}
    if numbers:
        yield path, numbers
    for key, value in node.items():
        if not _is_number(value):
            items = value.items() if isinstance(value, dict) else enumerate(value, start=1)
            inner = {str(name): one for name, one in items}
            yield from summary_rows(inner, f"{path} / {key}" if path else key)


def _content(other: Other, folder: Path) -> str:
    drawn = other.drawn(folder)
    summary = _summary(other, folder / FILE_NAME)
    if not drawn and not summary:
        return ""
    images = []
    for path in drawn:
        with named_errors("read", path):
            images.append(svg_image(path.read_bytes(), path.stem.replace("_", " ")))
    return f"<p class=source>{escape(str(folder))}</p>{''.join(images)}{_summary_tables(summary)}"


def _summary(other: Other, path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    with named_errors("read", path):
        content = path.read_bytes()
    try:
        found = json.loads(content).get(other.name, {})
    except (ValueError, AttributeError) as error:
        raise UserError(f"{path} is no summary of analyses: {error}") from None
    return found if isinstance(found, dict) else {"value": found}


def _summary_tables(summary: dict[str, Any]) -> str:
    """The rows that have the same columns are one table."""
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for way, numbers in summary_rows(summary):
        groups.setdefault(tuple(numbers), []).append((way, *map(_text, numbers.values())))
    tables = []
    for columns, rows in groups.items():
        heads = ("", *(column.replace("_", " ") for column in columns))
        made = table(heads, rows, frozenset(range(1, len(heads))))
        if len(rows) > MAX_OPEN_ROWS:
            made = f"<details><summary>{len(rows)} rows</summary>{made}</details>"
        tables.append(made)
    return "".join(tables)


def _is_number(value: Any) -> bool:
    """Whether it fits a cell: a number or text, an estimate with its interval, or a list."""
    if isinstance(value, dict):
        return set(value) == {"value", "low", "high"}
    return not isinstance(value, list) or not any(isinstance(one, dict | list) for one in value)


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, dict):
        if value["low"] is None or value["high"] is None:
            return _text(value["value"])
        # Blanks that do not break hold the interval together.
        return (
            f"{_text(value['value'])} ({_text(value['low'])}\u00a0to\u00a0{_text(value['high'])})"
        )
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
