"""`advise`: which estimator a run's own rollouts call for, at what sampling and learning cost.

Nothing is sampled. `sampling/evidence.py` predicts the noise of every estimator's gradient. A
budget B buys the variance noise · cost / B: of two unbiased estimators the one with the smaller
product is the better buy. All numbers are relative to RLOO's.

    tokens = those sampled a rollout       seconds ∝ tokens + r · (tokens of a rollout)
"""

import argparse
import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from analysis import figures, options
from analysis.frames import choose_iterations
from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate, Sums, bootstrap_sums, ratio
from analysis.tables import Table, estimate, interval, markdown_table, number
from vineppo.errors import UserError
from vineppo.run_dir.files import write_atomic

if TYPE_CHECKING:
    from analysis.sampling.evidence import Evidence

ANALYSIS = "advise"
ADVICE = Table(
    "advise.csv",
    {"run": str, "method": str, "seed": int, "first_iteration": int, "last_iteration": int}
    | {"num_problems": int, "num_rollouts": int, "values_by": str, "has_exact_scores": int}
    | {
        "decisive": Estimate,
        "explained": Estimate,
        "cost_ratio": float,
        "estimator": str,
        "noise": Estimate,
    }
    | {"tokens": Estimate, "seconds": Estimate, "noise_tokens": Estimate}
    | {"noise_seconds": Estimate, "break_even": float | None},
)
BASELINE, BOUND = "rloo", "exact"  # exact values are what no run can buy
OF_RUN = ["run", "last_iteration"]
NUM_RESAMPLES = 2000
# By `has_exact_scores`.
WEIGHED = (
    "by the sampled tokens' probabilities",
    "by the last policy's logits",
    "by the gradients of the last policy",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser)
    options.add_numbers(
        parser,
        num_iterations=(20, "Read so many iterations of rollouts, the last before a checkpoint."),
        fit_iterations=(
            64,
            "Fit a martingale to so many iterations where no values are saved, and weigh steps by "
            "their gradients. 0 makes no pass of the policy.",
        ),
        num_steps=(8192, "Leave out problems beyond so many steps."),
    )
    options.add_continuations(parser, "1,3,9", "Predict for these numbers of continuations.")
    parser.add_argument(
        "--cuts", default="1,2,4", metavar="M,M…", help="Predict for so many cuts a rollout."
    )
    parser.add_argument(
        "--coins", default="3", metavar="N,N…", help="Predict for one sampled state in so many."
    )
    parser.add_argument(
        "--cost-ratio",
        type=float,
        metavar="R",
        help="Take learning from a token to cost R sampled ones instead of asking the run's times.",
    )


def run(paths: list[Path], out: Path, **settings: Any) -> list[Any]:
    """Writes advise.csv, .md and .png; gives the advice and what it wrote.

    Each path is a run directory, or a directory whose advise.csv is drawn again.
    """
    options.check_least(settings, num_iterations=1, fit_iterations=0, num_steps=1)
    settings["continuations"] = options.parse_continuations(settings["continuations"])
    settings["cuts"] = options.parse_continuations(settings["cuts"], "--cuts")
    settings["coins"] = options.parse_continuations(settings["coins"], "--coins")
    cost_ratio = settings["cost_ratio"]
    if cost_ratio is not None and not 0 <= cost_ratio < math.inf:
        raise UserError(f"--cost-ratio must be a number from 0, got {cost_ratio:g}")
    parts = [
        ADVICE.read(path) if ADVICE.holds(path) else run_rows(path, **settings) for path in paths
    ]
    rows = pd.concat(parts, ignore_index=True)
    lines = [line for _, of_run in rows.groupby(OF_RUN, sort=False) for line in report(of_run)]
    written = ADVICE.write(out, rows)
    write_atomic(out / "advise.md", "\n".join([*lines, ""]).encode())
    return [
        *lines,
        *written,
        out / "advise.md",
        *draw(rows, out / "advise"),
    ]


def run_rows(path: Path, checkpoints: str = "last", **settings: Any) -> pd.DataFrame:
    """`ADVICE` of a run, at each of the checkpoints; at the last one of all its rollouts."""
    from analysis.sampling.evidence import read_evidence
    from analysis.sampling.policies import policy_paths, train_config

    policies = list(policy_paths(path, train_config(path).model.path))
    chosen = choose_iterations(policies, checkpoints, "--checkpoints", f"{path} has no policy")
    found = [
        read_evidence(path, checkpoint=None if checkpoints == "last" else i, **settings)
        for i in chosen
    ]
    return pd.concat(map(evidence_rows, found))


def evidence_rows(evidence: "Evidence") -> pd.DataFrame:
    """`ADVICE`; problems are resampled, for all estimators the same."""
    statistics: dict[str, Any] = {
        f"{name}/{key}": partial(relative, name=name, key=key, cost_ratio=cost_ratio)
        for name, cost_ratio in evidence.cost_ratios.items()
        for key in ("noise", "tokens", "seconds", "noise_tokens", "noise_seconds")
    }
    if "decisive" in evidence.terms:
        statistics["decisive"] = lambda sums: ratio(sums["decisive"], sums["steps"])
    if "left" in evidence.terms:
        statistics["explained"] = lambda sums: 1 - ratio(sums["left"], sums["variance"])
    base = evidence.cost_ratios[BASELINE]
    found = bootstrap_sums(
        evidence.terms | {"base": base * evidence.terms["length"]}, evidence.problem_N, statistics,
        np.random.default_rng(BOOTSTRAP_SEED), num_resamples=NUM_RESAMPLES, level=LEVEL,
    )  # fmt: skip
    unknown = Estimate(math.nan, None, None)
    told = {key: found.pop(key, unknown) for key in ("decisive", "explained")}
    rows = []
    for name in evidence.cost_ratios:
        own = {key.partition("/")[2]: e for key, e in found.items() if key.startswith(f"{name}/")}
        noise, tokens = own["noise"].value, own["tokens"].value
        rows.append(
            evidence.about
            | {**told, "estimator": name, **own}
            | {"break_even": break_even(noise, tokens)}
        )
    return ADVICE.frame(rows)


def relative(sums: Sums, *, name: str, key: str, cost_ratio: float) -> np.ndarray:
    """A number of an estimator over RLOO's, from sums over rollouts."""
    length, tokens = sums["length"], sums[f"tokens/{name}"]
    number = np.ones_like(length)
    if key.startswith("noise"):
        number = number * ratio(sums[f"noise/{name}"], sums[f"noise/{BASELINE}"])
    if key.endswith("tokens"):
        number = number * ratio(tokens, length)
    if key.endswith("seconds"):
        number = number * ratio(tokens + cost_ratio * length, length + sums["base"])
    return number


def break_even(noise: float, tokens: float) -> float:
    """The r from which noise · (tokens + r)/(1 + r) is below 1; NaN of noise that is not.

    Half the noise for three times the tokens: (1.5 − 1)/(1 − 0.5) = 1.
    """
    return max((noise * tokens - 1) / (1 - noise), 0.0) if noise < 1 else math.nan


def best_of(rows: pd.DataFrame) -> tuple[Mapping[str, Any], bool]:
    """The least noise · seconds of what is surely below RLOO's, or else of all; whether it is.

    Only a cost that lies above 0 counts: of too few rollouts chance takes a noise below.
    """
    chosen = rows[~rows["estimator"].isin([BASELINE, BOUND]) & (rows["noise_seconds"] > 0)]
    if chosen.empty:
        return rows[rows["estimator"] == BASELINE].iloc[0].to_dict(), False
    sure = chosen[chosen["noise_seconds_high"] < 1]
    best = (chosen if sure.empty else sure).sort_values("noise_seconds").iloc[0].to_dict()
    return best, not sure.empty


def report(rows: pd.DataFrame) -> list[str]:
    """advise.md of a run: the recommendation, why, and the table."""
    first = rows.iloc[0]
    best, is_sure = best_of(rows)
    name = figures.estimator_label(best["estimator"])
    price = interval(estimate(best, "noise_seconds"), ".2f")
    bound = rows[rows["estimator"] == BOUND].iloc[0]
    lines = [
        f"# {first['method']}, seed {first['seed']}: {name if is_sure else 'RLOO or GRPO'}",
        "",
    ]
    if is_sure:
        lines += [f"Train with **{name}**: its noise times seconds is {price} of RLOO's."]
    else:
        lines += [
            f"Stay with **RLOO or GRPO**: no sure gain. The next best is {name}, whose noise times "
            f"seconds is {price} of RLOO's."
        ]
    lines += [
        f"It has {number(best['noise'], '.2f')} of RLOO's noise for "
        f"{number(best['tokens'], '.1f')} times its sampled tokens and "
        f"{number(best['seconds'], '.2f')} times its seconds, where learning from a token costs "
        f"{first['cost_ratio']:.2g} sampled ones; {turning(best)}. Exact values would leave "
        f"{number(bound['noise'], '.2f')} of the noise.",
        "Steps that decide, changing the value by 0.1 or more: "
        f"{interval(estimate(first, 'decisive'), '.2f')} of all. Share of the outcomes' variance "
        "within problems that a martingale of the rollouts explains: "
        f"{interval(estimate(first, 'explained'), '.2f')}; where it is small, values and steps "
        "that rest on it are hardly known.",
        "",
        f"{first['num_rollouts']} rollouts of {first['num_problems']} problems, iterations "
        f"{first['first_iteration']} to {first['last_iteration']}; values by {first['values_by']}; "
        f"steps weighed {WEIGHED[first['has_exact_scores']]}.",
        "",
    ]
    columns = ("noise", "noise_tokens", "noise_seconds")
    heads = ["estimator", "tokens", "seconds"]
    heads += [*(column.replace("_", " × ") for column in columns), "pays from r ="]
    table = [
        [figures.estimator_label(row["estimator"])]
        + [number(row[column], ".2f") for column in ("tokens", "seconds")]
        + [interval(estimate(row, column), ".2f") for column in columns]
        + [number(row["break_even"], ".2g")]
        for row in rows.sort_values("noise_seconds").to_dict("records")
    ]
    notes = ["", "All relative to RLOO.", ""]
    return [*lines, *markdown_table(heads, table), *notes]


def turning(best: Mapping[str, Any]) -> str:
    """Where RLOO is the better buy."""
    if pd.isna(best["break_even"]):
        return "RLOO is the better buy at any price"
    if best["break_even"] == 0:
        return "it pays at any price"
    return f"RLOO or GRPO is the better buy where that is below {best['break_even']:.2g}"


def draw(rows: pd.DataFrame, path: Path) -> list[Path]:
    """Noise against seconds, a panel a run; on a grey line their product is that of RLOO."""
    runs = list(rows.groupby(OF_RUN, sort=False))
    with figures.grid(len(runs), 3, margin_in=0.8) as (figure, axes):
        for axis, ((name, last), of_run) in zip(axes, runs, strict=True):
            draw_run(axis, of_run)
            axis.set_title(f"{name}, iteration {last}")
        figures.label_rows(axes, "noise (RLOO: 1)")
        figures.legend_below(figure, *axes)
        return figures.save(figure, path)


def draw_run(axis: Axes, rows: pd.DataFrame) -> None:
    """A dot an estimator with the numbers of its name: cuts and K."""
    rows = rows[(rows["noise"] > 0) & (rows["seconds"] > 0)]
    families = [family for _, _, family, _ in figures.ESTIMATORS]
    for row in rows.to_dict("records"):
        _, name, _, bracketed = figures.estimator_family(row["estimator"])
        color = figures.estimator_color(row["estimator"])
        marker = figures.marker(families.index(name))
        axis.plot(row["seconds"], row["noise"], ls="", label=name, color=color, marker=marker)
        if not pd.isna(row["noise_low"]):
            bar = max(row["noise_low"], 1e-6), row["noise_high"]
            axis.plot([row["seconds"]] * 2, bar, color=color, linewidth=0.7)
        axis.annotate(
            ", ".join(bracketed), (row["seconds"], row["noise"]), (2, 3), fontsize=4,
            textcoords="offset points", rotation=45,
        )  # fmt: skip
    low, high = rows["seconds"].min() / 1.4, rows["seconds"].max() * 1.4
    for product, dashes in ((0.25, ":"), (0.5, "--"), (1, "-"), (2, "--"), (4, ":")):
        places = np.array([low, high])
        axis.plot(places, product / places, color="0.8", ls=dashes, linewidth=0.7, zorder=0)
    figures.logarithmic(axis, low, high, StrMethodFormatter("{x:g}"))
    axis.set_yscale("log")
    axis.set_ylim(rows["noise"].min() / 1.6, rows["noise"].max() * 1.6)
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("seconds (RLOO: 1)")
