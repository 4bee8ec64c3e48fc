"""`advise`: which estimator a run's rollouts call for, at what sampling and learning cost.

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
from matplotlib.ticker import StrMethodFormatter

from analysis import estimators, figures, options
from analysis.estimators import BASELINE, BOUND
from analysis.frames import choose_iterations
from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate, Sums, bootstrap_sums, ratio
from analysis.tables import Table, estimate, interval, markdown_table, number
from vineppo.errors import UserError

if TYPE_CHECKING:
    from analysis.sampling.evidence import Evidence

ANALYSIS = "advise"
ADVICE = Table(
    "advise.csv",
    {"run": str, "method": str, "seed": int, "first_iteration": int, "last_iteration": int}
    | {"num_problems": int, "num_rollouts": int, "values_by": str, "has_exact_scores": int}
    | {"cost_ratio": float, "estimator": str}
    | dict.fromkeys(["noise", "tokens", "seconds", "noise_tokens", "noise_seconds"], Estimate)
    | {"break_even": float | None, "spread": Estimate},
    added=("spread",),
)
OF_RUN = ["run", "last_iteration"]
NUM_RESAMPLES = 2000
AROUND_IN, ROW_IN = 0.8, 0.16  # of a panel's height, and an estimator's
# By `has_exact_scores`; older runs' tables have 1.
WEIGHED = (
    "by the sampled tokens' probabilities", "by the last policy's logits",
    "by the gradients of the last policy",
)  # fmt: skip


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
    for option, default, text in (
        ("--cuts", "1,2,4", "Predict for so many cuts a rollout."),
        ("--coins", "3", "Predict for one sampled state in so many."),
    ):
        parser.add_argument(
            option, type=options.numbers, default=default, metavar="N,N…", help=text
        )
    parser.add_argument(
        "--cost-ratio",
        type=float,
        metavar="R",
        help="Take learning from a token to cost R sampled ones instead of asking the run's times.",
    )


def run(paths: list[Path], out: Path, **settings: Any) -> list[Any]:
    """Writes advise.csv and .png; returns the advice and the paths.

    Each path is a run directory, or a directory with an advise.csv to draw again.
    """
    options.check_least(settings, num_iterations=1, fit_iterations=0, num_steps=1)
    cost_ratio = settings["cost_ratio"]
    if cost_ratio is not None and not 0 <= cost_ratio < math.inf:
        raise UserError(f"--cost-ratio must be a number from 0, got {cost_ratio:g}")
    parts = [
        ADVICE.read(path) if ADVICE.holds(path) else run_rows(path, **settings) for path in paths
    ]
    rows = pd.concat(parts, ignore_index=True)
    lines = [line for _, of_run in rows.groupby(OF_RUN, sort=False) for line in report(of_run)]
    return [*lines, *ADVICE.write(out, rows), *draw(rows, out / "advise")]


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
    if "between" in evidence.terms:
        statistics["spread"] = lambda sums: ratio(sums["between"], sums[f"noise/{BASELINE}"])
    base = evidence.cost_ratios[BASELINE] * evidence.terms["length"]
    found = bootstrap_sums(
        evidence.terms | {"base": base}, evidence.problem_N, statistics,
        np.random.default_rng(BOOTSTRAP_SEED), num_resamples=NUM_RESAMPLES, level=LEVEL,
    )  # fmt: skip
    rows = []
    for name in evidence.cost_ratios:
        numbers = {
            key.partition("/")[2]: e for key, e in found.items() if key[: key.rfind("/")] == name
        }
        at = break_even(numbers["noise"].value, numbers["tokens"].value)
        about = evidence.about | {"spread": found.get("spread")}
        rows.append(about | {"estimator": name, **numbers, "break_even": at})
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
    """The least r with noise · (tokens + r)/(1 + r) ≤ 1; NaN unless the noise is below 1.

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
    """The recommendation, why, and the table."""
    first, (best, is_sure) = rows.iloc[0], best_of(rows)
    name, price = (
        estimators.label(best["estimator"]),
        interval(estimate(best, "noise_seconds"), ".2f"),
    )
    bound = rows[rows["estimator"] == BOUND].iloc[0]
    advice = f"Stay with **RLOO or GRPO**: no sure gain. The next best is {name}, whose"
    if is_sure:
        advice = f"Train with **{name}**: its"
    columns = ("noise", "noise_tokens", "noise_seconds")
    table = [
        [estimators.label(row["estimator"])]
        + [number(row[column], ".2f") for column in ("tokens", "seconds")]
        + [interval(estimate(row, column), ".2f") for column in columns]
        + [number(row["break_even"], ".2g")]
        for row in rows.sort_values("noise_seconds").to_dict("records")
    ]
    heads = ["estimator", "tokens", "seconds"]
    heads += [*(column.replace("_", " × ") for column in columns), "pays from r ="]
    return [
        f"# {first['method']}, seed {first['seed']}",
        "",
        f"{advice} noise times seconds is {price} of RLOO's.",
        f"It has {number(best['noise'], '.2f')} of RLOO's noise for "
        f"{number(best['tokens'], '.1f')} times its sampled tokens and "
        f"{number(best['seconds'], '.2f')} times its seconds, where "
        f"learning from a token costs r = {first['cost_ratio']:.2g} sampled ones. Exact values "
        f"would leave {number(bound['noise'], '.2f')} of the noise.",
        "",
        f"{first['num_rollouts']} rollouts of {first['num_problems']} problems, iterations "
        f"{first['first_iteration']} to {first['last_iteration']}; values by {first['values_by']}; "
        f"steps weighed {WEIGHED[first['has_exact_scores']]}. All relative to RLOO.",
        "",
        balance(estimate(first, "spread")),
        "",
        *markdown_table(heads, table),
    ]


def balance(spread: Estimate | None) -> str:
    """By the spread of true gradients between problems, over RLOO's noise of one rollout."""
    if spread is None:
        return "The noise includes the true gradient, which no credit removes."
    ends = (f"{1 / x:.2g}" if x and x > 0 else "∞" for x in (spread.value, spread.high, spread.low))
    text = "Up to {} ({} to {}) rollouts a problem RLOO's noise within problems exceeds the spread"
    return f"{text} of true gradients between them. Beyond, take more problems.".format(*ends)


def draw(rows: pd.DataFrame, path: Path) -> list[Path]:
    """Noise, and noise times seconds, of the best buy of every family; a row of panels a run."""
    family = rows["estimator"].map(lambda name: estimators.form_of(name)[0].family)
    rows = rows[(rows["noise"] > 0) & (rows["noise_seconds"] > 0)].assign(family=family)
    best = rows.loc[rows.groupby([*OF_RUN, "family"], sort=False)["noise_seconds"].idxmin()]
    runs = list(best.sort_values("noise_seconds").groupby(OF_RUN, sort=False))
    most = max(len(of_run) for _, of_run in runs)
    with figures.panels(len(runs), 2, margin_in=2.6) as (figure, axes):
        figure.set_figheight(len(runs) * (AROUND_IN + ROW_IN * most))
        for number, ((name, last), of_run) in enumerate(runs):
            labels = list(map(estimators.label, of_run["estimator"]))
            for axis, column in zip(axes[2 * number :], ("noise", "noise_seconds"), strict=False):
                for place, row in enumerate(of_run.to_dict("records")):
                    ends = [max(row[f"{column}_low"], 1e-6), row[f"{column}_high"]]
                    color = estimators.color(row["estimator"])
                    axis.plot(ends, [place, place], color=color, linewidth=0.9)
                    axis.plot(row[column], place, "o", color=color)
                dots = [1.0, *of_run[column]]
                figures.logarithmic(axis, min(dots) / 2, max(dots) * 2, StrMethodFormatter("{x:g}"))
                axis.axvline(1, color="0.7", linewidth=0.6, zorder=0)
                axis.set_yticks(range(len(labels)), labels if column == "noise" else [])
                axis.set_ylim(len(labels) - 0.5, -0.5)
                axis.set_xlabel(f"{column.replace('_', ' × ')} (RLOO: 1)")
            axes[2 * number].set_title(f"{name}, iteration {last}", loc="left")
        return figures.save(figure, path)
