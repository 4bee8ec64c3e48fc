"""`compare`: how far methods are from a baseline, in each setting.

Runs of one name that differ in their seed alone are a method; what a setting is says `counts`.
"""

import argparse
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from analysis import counts, figures
from analysis.costs import COSTS
from analysis.stats.bootstrap import Estimate
from analysis.stats.comparison import permutation_p, welch
from analysis.tables import Table, estimate, interval, markdown_table, number
from vineppo.errors import UserError

WELCH = "welch"
# `effect` is pass@1 of the method minus the baseline's where `axis` is `at`. `p_t` and
# `p_permutation` are two-sided, and not corrected for how many comparisons there are. A run's
# pass@1 is the mean of `num_samples` answers (the fewest), which gives it the standard deviation
# `noise_sd`. `is_extrapolated` is 1 where `at` lies before some run's first evaluation after the
# start: the number is then on a straight line from the start, and only its sign means something.
COMPARISONS = Table(
    "compare.csv",
    {"setting": str, "method": str, "baseline": str, "axis": str, "at": float}
    | {"interval": str, "effect": Estimate, "df": float | None}
    | {"p_t": float | None, "p_permutation": float | None}
    | {"num_seeds": int, "num_seeds_baseline": int, "num_samples": int}
    | {"noise_sd": float | None, "is_extrapolated": int},
)
ROW_IN, WIDTH_IN, AROUND_IN = 0.17, 5.0, 1.0  # of the figure
LABEL_LETTERS = 40  # in a line of its name


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--baseline",
        action="append",
        required=True,
        metavar="NAME",
        help="Compare with this run name or method (PPO, GRPO, …). May be given several times.",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="NAME",
        help="Leave this method out. May be given several times.",
    )
    counts.add_place(parser)


def run(
    paths: list[Path], out: Path, baseline: list[str], at: str, without: list[str]
) -> list[Any]:
    """Writes both tables of `counts`, the comparisons and the figure.

    Each path is a run directory, or a directory with an evaluations.parquet.
    """
    rows, provenance = counts.without(without, *counts.read(paths))
    comparisons = pd.concat([compared(rows, name, at) for name in baseline], ignore_index=True)
    return [
        *table_lines(comparisons),
        *counts.write(out, rows, provenance),
        *COMPARISONS.write(out, comparisons),
        *draw(comparisons, out / "compare"),
    ]


def compared(rows: pd.DataFrame, baseline: str, at: str) -> pd.DataFrame:
    """`COMPARISONS`: Welch's interval and both tests of every method, by setting.

    `baseline` is the name of runs, or a method as people call it, which may be in many settings.
    Raises `UserError` for a setting without it, or without another method.
    """
    found = []
    for setting, of_setting in rows.groupby("setting", sort=False):
        labels = counts.method_labels(of_setting)
        wanted = {baseline, baseline.casefold()}
        base = [name for name, label in labels.items() if {name, label.casefold()} & wanted]
        if len(base) != 1:
            held = ", ".join(f"{name} ({label})" for name, label in labels.items())
            raise UserError(f"--baseline: {setting} has no {baseline} (only {held})")
        if len(labels) == 1:
            raise UserError(f"{setting} has nothing to compare with {base[0]}")
        axis, place = counts.choose_place(of_setting, at)
        measured = {
            str(name): counts.measure(of_method, axis, place)
            for name, of_method in of_setting.groupby("method", sort=False)
        }
        of_base = measured.pop(base[0])
        for name, method in measured.items():
            welch_test = welch(method.scores_S, of_base.scores_S)
            noise = float(np.concatenate([method.noise_S, of_base.noise_S]).mean())
            found.append(
                {
                    "setting": setting,
                    "method": labels[name],
                    "baseline": labels[base[0]],
                    "axis": axis,
                    "at": place,
                    "interval": WELCH,
                    "effect": welch_test.effect,
                    "df": welch_test.df,
                    "p_t": welch_test.p_value,
                    "p_permutation": permutation_p(method.scores_S, of_base.scores_S),
                    "num_seeds": len(method.seeds),
                    "num_seeds_baseline": len(of_base.seeds),
                    "num_samples": min(method.num_samples, of_base.num_samples),
                    "noise_sd": noise**0.5,
                    "is_extrapolated": int(method.is_extrapolated or of_base.is_extrapolated),
                }
            )
    return COMPARISONS.frame(found)


def table_lines(comparisons: pd.DataFrame) -> list[str]:
    """A table for a README; † marks what is extrapolated."""
    lines = [
        [
            row["setting"],
            f"{row['method']} − {row['baseline']}",
            COSTS[row["axis"]].amount(row["at"]),
            interval(estimate(row, "effect"), "+.3f") + "†" * row["is_extrapolated"],
            *(number(row[name]) for name in ("p_t", "p_permutation")),
            f"{row['num_seeds']}, {row['num_seeds_baseline']}",
        ]
        for row in comparisons.to_dict("records")
    ]
    heads = ["setting", "method", "at", "effect (95 %)", "p (t)", "p (permutation)", "seeds"]
    note = "†: some run was first evaluated beyond this; a straight line from its start, no result."
    return [*markdown_table(heads, lines), *[note] * bool(comparisons["is_extrapolated"].any())]


def draw(comparisons: pd.DataFrame, path: Path) -> list[Path]:
    """A forest plot: a row a setting, baseline and method; hollow where extrapolated."""
    rows = comparisons.to_dict("records")
    baselines = list(comparisons["baseline"].unique())
    styles = figures.method_styles(list({*comparisons["method"]}))
    with figures.panels(1, 1) as (figure, (axis,)):
        figure.set_size_inches(WIDTH_IN, AROUND_IN + ROW_IN * (len(rows) + 1))
        axis.axvline(0, color="0.6", linewidth=0.6, zorder=0)
        for place, row in enumerate(rows):
            color = styles[row["method"]]["color"]
            ends = row["effect_low"], row["effect_high"]
            axis.plot(ends, [place] * 2, color=color, linewidth=2, solid_capstyle="butt", zorder=1)
            face = "white" if row["is_extrapolated"] else color
            axis.plot(row["effect"], place, "o", color=color, markersize=4.5, mfc=face, zorder=3)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.set_yticks(range(len(rows)), list(map(partial(row_name, comparisons), rows)))
        axis.tick_params(axis="y", length=0, pad=7)
        axis.set_ylim(len(rows) - 0.2, -0.8)
        cost, ats = COSTS[rows[0]["axis"]], comparisons["at"].unique()
        where = cost.amount(ats[0]) if len(ats) == 1 else f"equal {cost.label}"
        text = f"test pass@1 minus that of {' or '.join(baselines)}, at {where} (95 % over seeds)"
        axis.set_xlabel(textwrap.fill(text, LABEL_LETTERS), loc="right")
        return figures.save(figure, path)


def row_name(comparisons: pd.DataFrame, row: dict[str, Any]) -> str:
    """The method, and what else tells the row from the others."""
    name = str(row["method"])
    if comparisons["baseline"].nunique() > 1:
        name += f" − {row['baseline']}"
    return f"{row['setting']}: {name}" if comparisons["setting"].nunique() > 1 else name
