"""Tables of what the runs are, what they reached and what they ran on."""

import json
from html import escape

import pandas as pd

from analysis.frames import Run
from analysis.report.costs import last
from analysis.report.markup import ABSENT, number, paragraph, table

HEADS = (
    "run",
    "directory",
    "credit",
    "seed",
    "iterations",
    "training time",
    "test pass@1 (95 % interval), start → end",
)


def results_table(runs: list[Run], names: list[str], curves: list[pd.DataFrame]) -> str:
    rows = [
        (
            name,
            str(one.path),
            str(one.config.get("credit", {}).get("kind", ABSENT)),
            ABSENT if one.seed is None else str(one.seed),
            str(one.metrics["iteration"].iloc[-1]),
            number(last(one, "time/elapsed_s"), unit=" s"),
            f"{_accuracy_text(curve.iloc[0])} → {_accuracy_text(curve.iloc[-1])}",
        )
        for one, name, curve in zip(runs, names, curves, strict=True)
    ]
    columns = ["num_problems", "samples_per_problem"]
    sizes = dict.fromkeys(tuple(of.iloc[-1][columns].astype(int)) for of in curves)
    tested = " or ".join(f"{problems} test problems, {n} sample(s) each" for problems, n in sizes)
    return table(HEADS, rows, frozenset({3, 4, 5})) + paragraph(
        f"{tested}; the intervals are a bootstrap over problems and do not cover the seed of the "
        "run."
    )


def environment_table(one: Run) -> str:
    rows = "".join(
        f"<tr><td>{escape(key)}</td><td><pre>{escape(_plain(value))}</pre></td></tr>"
        for key, value in one.environment.items()
    )
    return f"<table>{rows}</table>"


def _accuracy_text(point: pd.Series) -> str:
    if pd.isna(point.low):
        return f"{point['pass@1']:.3f}"
    return f"{point['pass@1']:.3f} ({point.low:.3f}–{point.high:.3f})"


def _plain(value: object) -> str:
    """Tables as lines of `key: value`, lists of words as a line, the rest as JSON."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value) or ABSENT
    return value if isinstance(value, str) else json.dumps(value)
