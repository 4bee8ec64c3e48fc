"""`power`: what scores vary by, and how many seeds and answers a difference needs.

In each setting on its own, of methods that are taken to spread alike, on *these* problems.
"""

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import counts
from analysis.stats import comparison
from analysis.stats.bootstrap import Estimate
from analysis.stats.comparison import MAX_SEEDS, Components, Spread
from analysis.summary import interval, markdown_table, nested, number, write_summary
from analysis.tables import Table, estimate
from vineppo.errors import UserError

# What scores vary by, and how well the runs tell: `df` are the effective degrees of freedom of
# `seed_sd`, `num_pairs` the pairs of scores at one seed behind the correlation. `noise_sd` is what
# sampling its answers gives a pass@1, a mean of `num_samples`.
COMPONENTS = Table(
    "power_components.csv",
    {"setting": str, "axis": str, "at": float, "num_methods": int, "num_runs": int, "df": float}
    | {"seed_sd": Estimate, "noise_sd": float, "num_samples": int}
    | {"correlation": float | None, "num_pairs": int},
)
# The fewest seeds of each method at which the t-test finds `difference` with the chance `wanted`;
# empty where 10,000 are not enough. `num_samples` answers a pass@1; empty: without any noise.
SEEDS = Table(
    "seeds_needed.csv",
    {"setting": str, "test": str, "num_samples": int | None, "noise_sd": float}
    | {"difference": float, "wanted": float, "num_seeds": int | None},
)
# The chance at some numbers of seeds.
POWER = Table(
    "power.csv",
    {"setting": str, "test": str, "num_samples": int | None, "difference": float}
    | {"num_seeds": int, "power": float},
)
WELCH, PAIRED = "welch", "paired"
MORE_SAMPLES = (1, 4, 16, math.inf)  # times the answers that there were
NUM_SEEDS = (3, 5, 8, 10, 16, 25, 50)


def add_options(parser: argparse.ArgumentParser) -> None:
    text = "of pass@1 that is to be found"
    parser.add_argument("--difference", type=float, required=True, metavar="0.02", help=text)
    text = "chance to find it, by a two-sided test at 5 %%"
    parser.add_argument("--power", type=float, default=0.8, help=text)
    counts.add_place(parser)


def run(paths: list[Path], out: Path, difference: float, power: float, at: str) -> list[Any]:
    """Writes the components, the seeds needed, the power by seeds, and the summary.

    Each path is a run directory, or a directory with the evaluations.parquet of `compare`.
    """
    if not 0 < difference < 1:
        raise UserError(f"--difference must be above 0 and below 1, got {difference:g}")
    if not 0.05 < power < 1:
        raise UserError(f"--power must be above 0.05 and below 1, got {power:g}")
    rows, _ = counts.read(paths)
    components, needed, chances = [], [], []
    for setting, of_setting in rows.groupby("setting", sort=False):
        about, measured = components_of(of_setting, at)
        components.append({"setting": setting} | about)
        for test, num_samples, spread in designs(measured, about["num_samples"]):
            design = {"setting": setting, "test": test, "num_samples": num_samples}
            design |= {"difference": difference}
            seeds = seeds_needed(difference, spread, power)
            needed.append(
                design | {"noise_sd": spread.noise_sd, "wanted": power, "num_seeds": seeds}
            )
            chances += [
                design | {"num_seeds": n, "power": chance(n, difference, spread)} for n in NUM_SEEDS
            ]
    tables = COMPONENTS.frame(components), SEEDS.frame(needed), POWER.frame(chances)
    return [
        *table_lines(*tables),
        *COMPONENTS.write(out, tables[0]),
        *SEEDS.write(out, tables[1]),
        *POWER.write(out, tables[2]),
        write_summary(out, "power", summary_content(*tables)),
    ]


def components_of(rows: pd.DataFrame, at: str) -> tuple[dict[str, Any], Components]:
    """A row of `COMPONENTS` but for its setting, and what it comes from.

    Raises `UserError` where no method has two seeds, or a problem one answer.
    """
    setting, place = rows["setting"].iloc[0], counts.choose_place(rows, at)
    methods = [counts.measure(group, *place) for _, group in rows.groupby("method", sort=False)]
    noise_N = np.concatenate([scored.noise_S for scored in methods])
    if np.isnan(noise_N).any():
        raise UserError(f"{setting}: one answer a problem does not tell the evaluation's noise")
    scores = [dict(zip(scored.seeds, scored.scores_S.tolist(), strict=True)) for scored in methods]
    try:
        parts = comparison.components(scores, float(noise_N.mean()))
    except ValueError as error:
        raise UserError(f"{setting}: {error}") from None
    about = {
        "axis": place[0],
        "at": place[1],
        "num_methods": len(methods),
        "num_runs": len(noise_N),
        "df": parts.df,
        "seed_sd": parts.seed_sd,
        "noise_sd": parts.spread.noise_sd,
        "num_samples": min(scored.num_samples for scored in methods),
        "correlation": parts.spread.correlation,
        "num_pairs": parts.num_pairs,
    }
    return about, parts


def designs(parts: Components, num_samples: int) -> list[tuple[str, int | None, Spread]]:
    """Tests and numbers of answers, and what scores would then vary by: noise² falls as 1/answers.

    No pairs where no two methods share two seeds.
    """
    spread = parts.spread
    tests = {WELCH: replace(spread, correlation=None), PAIRED: spread}
    return [
        (
            test,
            None if more == math.inf else int(num_samples * more),
            replace(of_test, noise_sd=spread.noise_sd / more**0.5),
        )
        for test, of_test in tests.items()
        for more in MORE_SAMPLES
        if test == WELCH or spread.correlation is not None
    ]


def chance(num_seeds: int, difference: float, spread: Spread) -> float:
    """`comparison.power`, and 1 where nothing varies."""
    try:
        return comparison.power(num_seeds, difference, spread)
    except ValueError:
        return 1.0


def seeds_needed(difference: float, spread: Spread, wanted: float) -> int | None:
    """`comparison.seeds_needed`: at least 2, None where `MAX_SEEDS` are not enough."""
    if chance(2, difference, spread) >= wanted:
        return 2
    try:
        return comparison.seeds_needed(difference, spread, wanted)
    except ValueError:
        return None


def table_lines(components: pd.DataFrame, needed: pd.DataFrame, chances: pd.DataFrame) -> list[str]:
    """What is printed: a table of the components, and one of seeds and power."""
    lines = markdown_table(
        ["setting", "methods, runs", "seed SD", "noise SD", "answers a point", "correlation"],
        [
            [
                row["setting"],
                f"{row['num_methods']}, {row['num_runs']}",
                interval(estimate(row, "seed_sd"), ".4f"),
                number(row["noise_sd"], ".4f"),
                f"{row['num_samples']:,}",
                f"{number(row['correlation'], '.2f')} ({row['num_pairs']} pairs)",
            ]
            for row in components.to_dict("records")
        ],
    )
    first = needed.iloc[0]
    heads = ["setting", "test", "answers a point", f"seeds for {first['difference']:g}"]
    heads[-1] += f" at {100 * first['wanted']:g} %"
    rows = []
    for row in needed.to_dict("records"):
        of_design = _same_design(chances, row).set_index("num_seeds")["power"]
        count = f"> {MAX_SEEDS:,}" if pd.isna(row["num_seeds"]) else str(row["num_seeds"])
        answers = "any number" if pd.isna(row["num_samples"]) else f"{row['num_samples']:,}"
        cells = [f"{of_design[n]:.2f}" for n in NUM_SEEDS]
        rows.append([row["setting"], row["test"], answers, count, *cells])
    return [*lines, "", *markdown_table([*heads, *(f"power, {n}" for n in NUM_SEEDS)], rows), ""]


def summary_content(
    components: pd.DataFrame, needed: pd.DataFrame, chances: pd.DataFrame
) -> dict[str, Any]:
    """By setting: the components, and by test and answers the seeds needed and the power."""
    content = nested(components, "setting")
    for row in needed.to_dict("records"):
        samples = "any" if pd.isna(row["num_samples"]) else str(row["num_samples"])
        of_design = _same_design(chances, row)
        power = dict(zip(of_design["num_seeds"].astype(str), of_design["power"], strict=True))
        seeds = None if pd.isna(row["num_seeds"]) else int(row["num_seeds"])
        by_test = content[row["setting"]].setdefault(row["test"], {})
        by_test[samples] = {"num_seeds": seeds, "power": power}
    first = needed.iloc[0]
    return {name: float(first[name]) for name in ("difference", "wanted")} | {"settings": content}


def _same_design(chances: pd.DataFrame, row: Mapping[Any, Any]) -> pd.DataFrame:
    is_of = (chances["setting"] == row["setting"]) & (chances["test"] == row["test"])
    samples = chances["num_samples"]
    same = samples.isna() if pd.isna(row["num_samples"]) else samples == row["num_samples"]
    return chances[is_of & same.fillna(False).astype(bool)]
