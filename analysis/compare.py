"""`compare`: how far methods are from a baseline, in each setting and pooled over settings.

Runs of one name that differ in their seed alone are a method; what a setting is says `counts`.
The number of seeds alone decides which interval to quote, before any score is looked at: `WHY`.
"""

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis import counts, figures
from analysis.costs import COSTS
from analysis.counts import Measured
from analysis.stats.bootstrap import Estimate
from analysis.stats.comparison import Comparison, crossed, paired, permutation_p, welch
from analysis.stats.pooling import pooled, pooled_permutation_p
from analysis.stats.seeds import mean_difference
from analysis.summary import interval, markdown_table, nested, number, write_summary
from analysis.tables import Table, estimate
from vineppo.errors import UserError
from vineppo.run_dir.files import write_atomic

MIN_SEEDS = 10  # from here on pairs cost next to no degrees of freedom, and a bootstrap covers
MIN_SAMPLES = 1024  # answers behind a pass@1
POOLED = "pooled"
# The intervals, by the names that they have in experiments/10_interval_coverage.
WELCH, PAIRED, CROSSED, BOTH = "welch", "paired", "crossed", "crossed, paired"
BOOTSTRAP = "bootstrap of means"
# What the two intervals to quote speak of.
HERE, ELSEWHERE = "these problems", "problems like these"
WHY = {
    WELCH: f"fewer than {MIN_SEEDS} seeds in both: pairs would halve the degrees of freedom",
    PAIRED: f"{MIN_SEEDS} seeds or more in both: pairs take out what a seed does to both",
    CROSSED: f"problems drawn anew as well as seeds; fewer than {MIN_SEEDS} seeds in both",
    BOTH: f"problems drawn anew as well as seeds; {MIN_SEEDS} seeds or more in both",
}
# `effect` is pass@1 of the method minus the baseline's where `axis` is `at`. `p_t` and
# `p_permutation` are two-sided, and not corrected for how many comparisons there are. A run's
# pass@1 is the mean of `num_samples` answers (the fewest), which gives it the standard deviation
# `noise_sd`. `quote` is empty but for the interval to quote of these problems, and of problems like
# these. The setting "pooled" is the mean effect over the settings that have the method, all alike.
COMPARISONS = Table(
    "compare.csv",
    {"setting": str, "method": str, "baseline": str, "axis": str, "at": float | None}
    | {"interval": str, "effect": Estimate, "df": float | None}
    | {"p_t": float | None, "p_permutation": float | None}
    | {"num_seeds": int, "num_seeds_baseline": int, "num_samples": int}
    | {"noise_sd": float | None, "quote": str | None, "why": str | None},
)
# The two intervals to quote; the thin one lies on the thick one.
THICK: dict[str, Any] = {"linewidth": 3.0, "solid_capstyle": "butt", "zorder": 1}
THIN: dict[str, Any] = {"color": "0.15", "linewidth": 0.6, "marker": "|", "markersize": 4}
ROW_IN, WIDTH_IN, AROUND_IN = 0.17, 5.0, 1.0  # of the figure
MARGIN = 0.05  # of the axis, on either side of what it holds
LABEL_LETTERS = 40  # in a line of its name


@dataclass(frozen=True)
class Pair:
    """A method and the baseline in one setting, at the same place."""

    setting: str
    method: str
    baseline: str
    axis: str
    at: float
    runs: tuple[Measured, Measured]

    @property
    def in_both(self) -> tuple[Measured, Measured]:
        """The runs of the seeds that both have."""
        method, baseline = self.runs
        shared = sorted(set(method.seeds) & set(baseline.seeds))
        return method.of(shared), baseline.of(shared)

    @property
    def num_pairs(self) -> int:
        return len(self.in_both[0].seeds)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--baseline", required=True, metavar="NAME", help="of a run, or PPO, GRPO…")
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="a method that is left out"
    )
    counts.add_place(parser)


def run(paths: list[Path], out: Path, baseline: str, at: str, without: list[str]) -> list[Any]:
    """Writes both tables of `counts`, the comparisons, the figure and the summary.

    Each path is a run directory, or a directory whose evaluations.parquet is read in its place.
    """
    rows, provenance = counts.without(without, *counts.read(paths))
    comparisons = compared(pairs_of(rows, baseline, at))
    lines = table_lines(comparisons)
    write_atomic(out / "compare.md", "\n".join([*lines, "", *notes(comparisons), ""]).encode())
    return [
        *lines,
        *counts.write(out, rows, provenance),
        *COMPARISONS.write(out, comparisons),
        out / "compare.md",
        *draw(comparisons, out / "compare"),
        write_summary(out, "compare", summary_content(comparisons)),
    ]


def pairs_of(rows: pd.DataFrame, baseline: str, at: str) -> list[Pair]:
    """Every method and the baseline of its setting, by setting.

    `baseline` is the name of runs, or a method as people call it, which may be in many settings.
    Raises `UserError` for a setting without it, or without another method.
    """
    pairs = []
    for setting, of_setting in rows.groupby("setting", sort=False):
        labels = counts.method_labels(of_setting)
        wanted = {baseline, baseline.casefold()}
        base = [name for name, label in labels.items() if {name, label.casefold()} & wanted]
        others = [name for name in labels if name not in base]
        if len(base) != 1:
            held = ", ".join(f"{name} ({label})" for name, label in labels.items())
            raise UserError(f"--baseline: {setting} has no {baseline} (only {held})")
        if not others:
            raise UserError(f"{setting} has nothing to compare with {base[0]}")
        place = counts.choose_place(of_setting, at)
        measured = {
            str(name): counts.measure(of_method, *place)
            for name, of_method in of_setting.groupby("method", sort=False)
        }
        pairs += [
            Pair(
                str(setting),
                labels[name],
                labels[base[0]],
                *place,
                (measured[name], measured[base[0]]),
            )
            for name in others
        ]
    return pairs


def compared(pairs: Sequence[Pair]) -> pd.DataFrame:
    """`COMPARISONS` of every pair, then of the methods that are in several settings, pooled."""
    results: list[dict[str, Any]] = []
    with_intervals = [(pair, intervals(pair)) for pair in pairs]
    for pair, by_kind in with_intervals:
        for kind, comparison in by_kind.items():
            results.append(_row([pair], kind, comparison, permutation(kind, [pair])))
    for method in dict.fromkeys(pair.method for pair in pairs):
        here = [(pair, by_kind) for pair, by_kind in with_intervals if pair.method == method]
        of_method = [pair for pair, _ in here]
        if len(here) == 1 or len({pair.baseline for pair in of_method}) > 1:
            continue
        for kind in (WELCH, PAIRED, CROSSED, BOTH):
            if all(kind in by_kind for _, by_kind in here):
                comparison = pooled([by_kind[kind] for _, by_kind in here])
                results.append(_row(of_method, kind, comparison, permutation(kind, of_method)))
    return COMPARISONS.frame(results)


def intervals(pair: Pair) -> dict[str, Comparison]:
    """By kind; a bootstrap only from `MIN_SEEDS` seeds on, which fewer make far too narrow."""
    method, baseline = pair.runs
    method_both, baseline_both = pair.in_both
    kinds = {
        WELCH: welch(method.scores_S, baseline.scores_S),
        CROSSED: crossed(method.rates_SP, baseline.rates_SP, 1, is_paired=False),
    }
    if pair.num_pairs:
        kinds[PAIRED] = paired(method_both.scores_S, baseline_both.scores_S)
        kinds[BOTH] = crossed(method_both.rates_SP, baseline_both.rates_SP, 1)
    if min(len(scored.seeds) for scored in pair.runs) >= MIN_SEEDS:
        kinds[BOOTSTRAP] = Comparison(mean_difference(method.scores_S, baseline.scores_S))
    return kinds


def permutation(kind: str, pairs: Sequence[Pair]) -> float | None:
    """The p-value beside that of t; None of intervals that have none, and of single seeds."""
    if kind not in (WELCH, PAIRED):
        return None
    is_paired = kind == PAIRED
    scores = []
    for pair in pairs:
        method, baseline = pair.in_both if is_paired else pair.runs
        scores.append((method.scores_S, baseline.scores_S))
    if min(len(scored) for both in scores for scored in both) < 2:
        return None
    if len(scores) == 1:
        return permutation_p(*scores[0], is_paired=is_paired)
    return pooled_permutation_p(scores, is_paired=is_paired)


def _row(
    pairs: Sequence[Pair], kind: str, comparison: Comparison, p_permutation: float | None
) -> dict[str, Any]:
    first, is_pooled, is_paired = pairs[0], len(pairs) > 1, kind in (PAIRED, BOTH)
    runs = [pair.in_both if is_paired else pair.runs for pair in pairs]
    noise = np.concatenate([scored.noise_S for both in runs for scored in both])
    speaks_of = {WELCH: HERE, PAIRED: HERE, CROSSED: ELSEWHERE, BOTH: ELSEWHERE}
    takes_pairs = min(pair.num_pairs for pair in pairs) >= MIN_SEEDS
    is_quoted = kind in speaks_of and is_paired == takes_pairs
    return {
        "setting": POOLED if is_pooled else first.setting,
        "method": first.method,
        "baseline": first.baseline,
        "axis": first.axis,
        "at": None if is_pooled else first.at,
        "interval": kind,
        "effect": comparison.effect,
        "df": comparison.df,
        "p_t": comparison.p_value,
        "p_permutation": p_permutation,
        "num_seeds": sum(len(method.seeds) for method, _ in runs),
        "num_seeds_baseline": sum(len(baseline.seeds) for _, baseline in runs),
        "num_samples": min(scored.num_samples for both in runs for scored in both),
        "noise_sd": float(noise.mean() ** 0.5),
        "quote": speaks_of[kind] if is_quoted else None,
        "why": WHY[kind] if is_quoted else None,
    }


def quoted(comparisons: pd.DataFrame, of_what: str) -> pd.DataFrame:
    """The rows to quote, one a setting and method."""
    return comparisons[comparisons["quote"] == of_what]


def table_lines(comparisons: pd.DataFrame) -> list[str]:
    """A table for a README: of each setting and method the two intervals to quote, and p-values."""
    heads = ["setting", "method", "at", "effect on these problems", "interval", "p (t)"]
    heads += ["p (permutation)", "on problems like these", "seeds", "answers a point", "noise SD"]
    elsewhere = quoted(comparisons, ELSEWHERE).set_index(["setting", "method"])
    lines = []
    for row in quoted(comparisons, HERE).to_dict("records"):
        other = elsewhere.loc[(row["setting"], row["method"])]
        lines.append(
            [
                row["setting"],
                f"{row['method']} − {row['baseline']}",
                number(row["at"], ",.0f"),
                interval(estimate(row, "effect"), "+.3f"),
                row["interval"],
                _p_value(row["p_t"]),
                _p_value(row["p_permutation"]),
                interval(estimate(other, "effect"), "+.3f"),
                f"{row['num_seeds']}, {row['num_seeds_baseline']}",
                f"{row['num_samples']:,}",
                number(row["noise_sd"], ".4f"),
            ]
        )
    return markdown_table(heads, lines)


def _p_value(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else number(p_value)


def notes(comparisons: pd.DataFrame) -> list[str]:
    """What a reader must know of the table, and what makes its numbers doubtful."""
    here, axis = quoted(comparisons, HERE), comparisons["axis"].iloc[0]
    texts = [
        f"Effects are differences of pass@1 at the same {COSTS[axis].label}, with "
        "intervals of 95 %. p-values are two-sided, of each comparison alone.",
        *(
            f"{kind}: {WHY[kind]}."
            for kind in dict.fromkeys(comparisons["interval"][comparisons["quote"].notna()])
        ),
    ]
    if POOLED in set(comparisons["setting"]):
        texts.append(
            "pooled: the mean of the settings' effects, equal weights (Bonett, 2009), on these "
            "settings; labels exchanged within settings alone."
        )
    if (single := here[here["effect_low"].isna()]).size:
        names = dict.fromkeys(f"{row.method} in {row.setting}" for row in single.itertuples())
        texts.append(f"No interval, seeds too few or all alike: {', '.join(names)}.")
    if comparisons["num_samples"].min() < MIN_SAMPLES:
        texts.append(f"Some points have fewer than {MIN_SAMPLES:,} answers: read the noise SD.")
    return [f"- {text}" for text in texts]


def summary_content(comparisons: pd.DataFrame) -> dict[str, Any]:
    """By setting, method and kind of interval."""
    shared = ["baseline", "axis"]
    content = nested(comparisons, "setting", "method", "interval", leave=shared)
    return {name: comparisons[name].iloc[0] for name in shared} | {"settings": content}


def draw(comparisons: pd.DataFrame, path: Path) -> list[Path]:
    """A forest plot: a row a setting and method, the pooled ones below.

    Thick is the interval to quote of these problems, thin that of problems like these. An interval
    that leaves the axis ends in an arrow, and its numbers stand beside it.
    """
    here, elsewhere = quoted(comparisons, HERE), quoted(comparisons, ELSEWHERE)
    methods = comparisons["method"].unique()
    styles = figures.method_styles([*methods, *comparisons["baseline"].unique()])
    places = place_rows(here)
    with figures.panels(1, 1) as (figure, (axis,)):
        figure.set_size_inches(WIDTH_IN, AROUND_IN + ROW_IN * (max(places.values()) + 2))
        axis.axvline(0, color="0.6", linewidth=0.6, zorder=0)
        low, high = axis_limits(pd.concat([here, elsewhere]))
        axis.set_xlim(low - MARGIN * (high - low), high + MARGIN * (high - low))
        for rows, look in ((here, THICK), (elsewhere, THIN)):
            for row in rows.to_dict("records"):
                style = styles[row["method"]]
                _draw_row(axis, row, places[row["setting"], row["method"]], style, look)
            of_what = f"{rows['quote'].iloc[0]} ({' and '.join(rows['interval'].unique())})"
            axis.plot([], [], label=of_what, **{"color": "0.5"} | look)
        axis.xaxis.set_major_locator(MaxNLocator(5))
        _name_rows(axis, places)
        baselines = " or ".join(comparisons["baseline"].unique())
        axis.set_xlabel(textwrap.fill(f"test pass@1 minus that of {baselines}", LABEL_LETTERS))
        figures.shared_legend(figure, axis)
        return figures.save(figure, path)


def place_rows(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """How far from the top each method of a setting is; of several, each has a row of its name."""
    places: dict[tuple[str, str], float] = {}
    height, num_settings = 0.0, rows["setting"].nunique()
    for setting, methods in rows.groupby("setting", sort=False)["method"]:
        for name in [""] * (num_settings > 1) + list(methods):
            places[str(setting), name] = height
            height += 1
        height += 0.6
    return places


def axis_limits(rows: pd.DataFrame) -> tuple[float, float]:
    """They hold 0 and every interval, but those of a few rows that take more than half of the room.

    Of (0, 1), (−1, 1) and (−9, 9) they are (−1, 1). More than half of the rows stay.
    """
    ends = rows.assign(
        low=rows["effect_low"].fillna(rows["effect"]),
        high=rows["effect_high"].fillna(rows["effect"]),
    )
    of_rows = ends.groupby(["setting", "method"]).agg({"low": "min", "high": "max"})
    spans = np.vstack([[0.0, 0.0], of_rows.to_numpy()])

    def room(spans: np.ndarray) -> float:
        return float(spans[:, 1].max() - spans[:, 0].min())

    while len(spans) > len(of_rows) // 2 + 2:
        fewer = min((np.delete(spans, row, 0) for row in range(1, len(spans))), key=room)
        if room(fewer) > room(spans) / 2:
            break
        spans = fewer
    return float(spans[:, 0].min()), float(spans[:, 1].max())


def _draw_row(
    axis: Axes,
    row: Mapping[str, Any],
    height: float,
    style: dict[str, Any],
    look: dict[str, Any],
) -> None:
    """An effect and an interval; the numbers and arrows of what lies beyond the axis."""
    low, high, color = row["effect_low"], row["effect_high"], style["color"]
    axis.plot([low, high], [height] * 2, **{"color": color} | look)
    if look is not THICK:
        return
    dot = {"color": color, "marker": style["marker"], "markersize": 5, "zorder": 3}
    axis.plot(row["effect"], height, **dot)
    left, right = axis.get_xlim()
    beyond = (left, "<", low < left), (right, ">", high > right)
    arrows = [(edge, arrow) for edge, arrow, is_beyond in beyond if is_beyond]
    for edge, arrow in arrows:
        axis.plot(edge, height, arrow, color=color, markersize=5, zorder=4, clip_on=False)
    if arrows:
        text = interval(estimate(row, "effect"), "+.3f").replace("-", "−")
        axis.text(1.03, height, text, transform=axis.get_yaxis_transform(), va="center", size=6)


def _name_rows(axis: Axes, places: Mapping[tuple[str, str], float]) -> None:
    """Methods beside their rows; settings, if several, above theirs, a line above the pooled."""
    axis.set_yticks(list(places.values()), [name or setting for setting, name in places])
    for text, (_, name) in zip(axis.get_yticklabels(), places, strict=True):
        text.set_fontweight("normal" if name else "bold")
    axis.tick_params(axis="y", length=0, pad=7)
    if (POOLED, "") in places:
        axis.axhline(places[POOLED, ""] - 0.8, color="0.6", linewidth=0.6)
    axis.set_ylim(max(places.values()) + 0.8, -0.8)
