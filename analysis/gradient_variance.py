"""`gradient-variance`: how noisy each estimator's policy gradient is, and what its noise costs.

All estimators share the rollouts, the policy and raw advantages. The unit is the problem. tr Σ of
its gradient has two parts: noise within problems, which better credit removes, and the spread of
true gradients between problems, which it cannot. Two independent halves of rollouts tell them
apart. A budget B buys noise · c/B, with c the sampled tokens or the seconds of a problem. Noises
compare estimators with the same mean gradient; GRPO compares only by scale-free numbers
(docs/analysis.md).
"""

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.ticker import StrMethodFormatter

from analysis import estimators, figures, options
from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate, bootstrap_weights
from analysis.stats.gradient_noise import gain_estimates, noise_from_gram
from analysis.tables import Table, find_tables, holds_tables_alone, read_rows
from analysis.truth import check_names
from vineppo.errors import UserError
from vineppo.types import question_of

ANALYSIS, FOLDER = "gradient-variance", "gradients"
# One row per estimator and problem; the problems of every estimator are the same, in one order.
GRADIENT_SCHEMA = pa.schema(
    {"run": pa.string(), "method": pa.string(), "seed": pa.int64()}
    | {"checkpoint": pa.int32(), "rollout_iteration": pa.int32()}
    | {"estimator": pa.string(), "problem_id": pa.string()}
    | {"num_tokens": pa.float64(), "time_s": pa.float64()}
    | dict.fromkeys(("adam_gain", "adam_gain_without"), pa.float64())
    | {"gram_N": pa.list_(pa.float32()), "within": pa.float64()}
)
OF_CHECKPOINT = {"run": str, "method": str, "seed": int, "checkpoint": int}
OF_CHECKPOINT |= {"rollout_iteration": int, "num_problems": int}
GROUP = ["run", "checkpoint"]
# A number of one estimator with its 95 % interval over problems, empty where undefined.
NOISE = Table(
    "gradient_variance.csv", OF_CHECKPOINT | {"estimator": str, "quantity": str, "value": Estimate}
)
NUM_RESAMPLES = 2000
WITH_RATIO = (
    "trace",
    "trace_tokens",
    "trace_time",
    "signal",
    "within",
    "within_tokens",
    "within_time",
)
# A panel each; of the noise within problems where it is known.
PANELS = {
    "": "{} of a problem's gradient",
    "_tokens": "{} at equal sampled tokens",
    "_time": "{} at equal time",
}
PARTS = {"within": "noise", "trace": "variance"}
AROUND_IN, ROW_IN = 0.8, 0.16  # of a panel's height, and an estimator's
SPREAD = 0.6  # of the room between two estimators, which the runs of one share


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser)
    parser.add_argument(
        "--problems",
        dest="num_problems",
        type=int,
        metavar="N",
        help="Use N problems instead of those of an iteration.",
    )
    parser.add_argument(
        "--estimators",
        default="all",
        metavar="NAME,NAME…",
        help="Compare these estimators with the first of them. all: what the run allows, rloo "
        "first. docs/analysis.md lists the names.",
    )
    options.add_numbers(
        parser,
        sample_values=(
            0,
            "Sample so many fresh continuations of every state, greedy responses, and rollouts "
            "where too few are saved, twice each. 0 takes what the run saved, once, which does not "
            "tell the noise within problems.",
        ),
        seed=(0, "Seed what is sampled, and the sketch of the gradients."),
    )


def run(paths: list[Path], out: Path, checkpoints: str, **settings: Any) -> list[Path]:
    """Writes a table of inner products a checkpoint, gradient_variance.csv and its figure.

    Each path is a run directory, or a directory with tables to draw again (gradients/, else the
    CSV). It keeps existing tables and resumes interrupted sampling.
    """
    options.check_least(settings, num_problems=2, sample_values=0)
    run_paths = [
        path for path in paths if not NOISE.holds(path) and not holds_tables_alone(path, FOLDER)
    ]
    check_names(run_paths)
    made = make_gradients(run_paths, out, checkpoints, settings)
    drawn_again = [path for path in paths if path not in run_paths]
    rows = pd.concat([*map(old_rows, drawn_again), *map(noise_rows, map(read_gradients, made))])
    rows = rows.reset_index(drop=True)
    firsts = rows.groupby(GROUP, sort=False)["estimator"].first().unique()
    if len(firsts) > 1:
        raise UserError(
            f"tables must compare with one estimator, the first of each, got {', '.join(firsts)}"
        )
    return [
        *made,
        *NOISE.write(out, rows),
        *draw(rows, out / "gradient_variance"),
    ]


def old_rows(folder: Path) -> pd.DataFrame:
    tables = find_tables(folder, FOLDER)
    return pd.concat(map(noise_rows, map(read_gradients, tables))) if tables else NOISE.read(folder)


def make_gradients(
    run_paths: Sequence[Path], out: Path, checkpoints: str, settings: dict[str, Any]
) -> list[Path]:
    """The tables of the chosen checkpoints, made where they are not there."""
    if not run_paths:
        return []
    from analysis.sampling.gradients import gradient_rows
    from analysis.sampling.policies import choose_checkpoints, make_tables

    chosen = choose_checkpoints(run_paths, checkpoints, out, FOLDER, settings)
    # Only what is sampled needs runs of one model and task.
    if settings["sample_values"]:
        return make_tables(chosen, GRADIENT_SCHEMA, gradient_rows)
    tables: list[Path] = []
    for run_path in run_paths:
        of_run = [checkpoint for checkpoint in chosen if checkpoint.run_path == run_path]
        tables += make_tables(of_run, GRADIENT_SCHEMA, gradient_rows)
    return tables


@dataclass(frozen=True)
class Gradients:
    """The gradients of N problems by E estimators on one checkpoint's rollouts.

    `gram_ENN[e, i, j]` is the inner product of problem i's and j's gradients by estimator e.
    `within_EN[e, i]` is the noise of problem i's, NaN if it was sampled once and in older tables.
    `num_tokens_EN` were sampled for the estimate, in `time_s_EN` (NaN where the run logged none).
    `adam_gains_EM`, with M = 1 + N, are what Adam gains by all problems (NaN in older tables) and
    without each of them. `about` are the columns `OF_CHECKPOINT`.
    """

    about: dict[str, Any]
    estimators: tuple[str, ...]
    problem_ids: tuple[str, ...]
    num_tokens_EN: np.ndarray
    time_s_EN: np.ndarray
    adam_gains_EM: np.ndarray
    gram_ENN: np.ndarray
    within_EN: np.ndarray


def read_gradients(path: Path) -> Gradients:
    """Raises `UserError` naming the file where it is damaged, incomplete or of other columns."""
    optional = ("seed", "time_s", "adam_gain_without", "gram_N", "within")
    rows = read_rows(path, GRADIENT_SCHEMA, "gradient", optional, ("adam_gain", "within"))
    estimators = tuple(dict.fromkeys(row["estimator"] for row in rows))
    problem_ids = tuple(dict.fromkeys(row["problem_id"] for row in rows))
    shape = len(estimators), len(problem_ids)
    expected = [(name, problem) for name in estimators for problem in problem_ids]
    if [(row["estimator"], row["problem_id"]) for row in rows] != expected:
        raise UserError(f"{path} must hold every problem once for every estimator, in one order")
    for number, row in enumerate(rows, start=1):
        if len(row["gram_N"] or ()) != len(problem_ids):
            raise UserError(f"{path}, row {number}: gram_N must hold {len(problem_ids)} numbers")

    def array(column: str, *more: int) -> np.ndarray:
        return np.array([row[column] for row in rows], float).reshape(*shape, *more)

    about = {name: rows[0][name] for name in OF_CHECKPOINT if name in rows[0]}
    return Gradients(
        about=about | {"num_problems": len(problem_ids)},
        estimators=estimators,
        problem_ids=problem_ids,
        num_tokens_EN=array("num_tokens"),
        time_s_EN=array("time_s"),
        adam_gains_EM=np.hstack([array("adam_gain")[:, :1], array("adam_gain_without")]),
        gram_ENN=array("gram_N", shape[1]),
        within_EN=array("within"),
    )


def noise_rows(gradients: Gradients) -> pd.DataFrame:
    """`NOISE`: every quantity of every estimator; problems are resampled, for all the same."""
    estimates = bootstrap_weights(
        lambda weights_N: numbers(gradients, weights_N),
        [question_of(problem_id) for problem_id in gradients.problem_ids],
        np.random.default_rng(BOOTSTRAP_SEED),
        num_resamples=NUM_RESAMPLES,
        level=LEVEL,
    )
    gains = gain_estimates(gradients.adam_gains_EM)
    for name, (gain, ratio) in zip(gradients.estimators, gains, strict=True):
        estimates |= {f"{name}/adam_gain": gain, f"{name}/adam_gain_ratio": ratio}
    rows = []
    for name, value in estimates.items():
        estimator, _, quantity = name.partition("/")
        rows.append({"estimator": estimator, "quantity": quantity, "value": value})
    return NOISE.frame(gradients.about | row for row in rows)


def numbers(gradients: Gradients, weights_N: np.ndarray) -> Mapping[str, float]:
    """`"estimator/quantity"` with problem i counting `weights_N[i]` times.

    num_tokens, time_s      c: sampled tokens and seconds of a problem
    trace                   tr Σ of a problem's gradient
    within                  its part within problems: the noise of a problem's own gradient
    between                 the rest: the spread of the problems' true gradients
    …_tokens, …_time        times c
    signal                  |E g|²/tr Σ of a problem
    …_ratio                 relative to the first estimator

    "exact" is the limit of vine's `within` in K. Draws of a state are independent, so `within` is
    A + B/K. The least and greatest K, a and b, give A = (b · within_b − a · within_a)/(b − a).

    Adam's gains are no function of inner products: `stats.gradient_noise.adam_gains`.
    """
    share_N = weights_N / weights_N.sum()
    found: dict[str, float] = {}
    for e, name in enumerate(gradients.estimators):
        noise = noise_from_gram(gradients.gram_ENN[e], weights_N)
        tokens, time_s = gradients.num_tokens_EN[e] @ share_N, gradients.time_s_EN[e] @ share_N
        within = float(gradients.within_EN[e] @ share_N)
        costs = {"": 1.0, "_tokens": float(tokens), "_time": float(time_s)}
        quantities = {
            "num_tokens": float(tokens),
            "time_s": float(time_s),
            **{f"trace{key}": noise.trace * cost for key, cost in costs.items()},
            "signal": _ratio(noise.squared_norm, noise.trace),
        }
        if not math.isnan(within):
            quantities |= {f"within{key}": within * cost for key, cost in costs.items()}
            quantities["between"] = noise.trace - within
        for key in filter(quantities.__contains__, WITH_RATIO):
            first = found.get(f"{gradients.estimators[0]}/{key}", quantities[key])
            quantities[f"{key}_ratio"] = _ratio(quantities[key], first)
        found |= {f"{name}/{key}": number for key, number in quantities.items()}
    draws = sorted(int(name[5:]) for name in gradients.estimators if re.match(r"vine_\d+$", name))
    if len(draws) > 1:
        a, b = draws[0], draws[-1]
        for key in ("within", "within_ratio"):
            if f"vine_{a}/{key}" in found:
                limit = b * found[f"vine_{b}/{key}"] - a * found[f"vine_{a}/{key}"]
                found[f"{estimators.BOUND}/{key}"] = limit / (b - a)
    return found


def draw(rows: pd.DataFrame, path: Path) -> list[Path]:
    """A panel a ratio that any estimator has: a dot a run and checkpoint with its interval.

    Ratios compare variances of estimators of one mean, which GRPO is not.
    """
    first, *others = rows["estimator"].unique()
    names = [first, *sorted(others, key=lambda name: name.startswith("vine"))]
    known = rows.dropna(subset="value")
    found = set(known["quantity"])
    part = next((part for part in PARTS if f"{part}_ratio" in found), "trace")
    panels = {f"{part}{key}_ratio": title.format(PARTS[part]) for key, title in PANELS.items()}
    panels = {quantity: title for quantity, title in panels.items() if quantity in found}
    if not panels:
        return []
    labels = list(map(estimators.label, names))
    with figures.panels(1, len(panels), margin_in=0.8) as (figure, axes):
        figure.set_figheight(AROUND_IN + ROW_IN * len(names))
        for axis, quantity in zip(axes, panels, strict=True):
            chosen = known[known["quantity"] == quantity]
            draw_dots(axis, chosen, names)
            ends = chosen[["value", "value_low", "value_high"]].stack()
            ends = [1.0, *ends[ends > 0]]
            figures.logarithmic(axis, min(ends) / 1.3, max(ends) * 1.3, StrMethodFormatter("{x:g}"))
            axis.axvline(1, color="0.7", linewidth=0.6, zorder=0)
            axis.set(title=panels[quantity], xlabel=f"over {labels[0]}'s")
            axis.set_yticks(range(len(names)), labels if axis is axes[0] else [])
            axis.set_ylim(len(names) - 0.5, -0.5)
        if len(axes[0].get_legend_handles_labels()[1]) > 1:
            figures.shared_legend(figure, axes[0])
        return figures.save(figure, path)


def draw_dots(axis: Axes, rows: pd.DataFrame, names: Sequence[str]) -> None:
    """One colour a method, one marker a run and checkpoint."""
    groups = list(rows.groupby(GROUP, sort=False))
    is_only = len(rows[["method", "seed"]].drop_duplicates()) == 1
    for index, (_, group) in enumerate(groups):
        shift = SPREAD * ((index + 0.5) / len(groups) - 0.5)
        marker, first = figures.marker(index), group.iloc[0]
        for row in group.to_dict("records"):
            place = names.index(row["estimator"]) + shift
            color = estimators.color(row["estimator"])
            axis.plot(row["value"], place, color=color, marker=marker)
            ends = [row["value_low"], row["value_high"]]
            axis.plot(ends, [place, place], color=color, linewidth=0.9)
        of_run = f"{figures.method_label(first.method)}, seed {first.seed}, "
        label = f"{'' if is_only else of_run}checkpoint {first.checkpoint}"
        axis.plot([], [], ls="", color="0.4", marker=marker, label=label)


def _ratio(number: float, first: float) -> float:
    return number / first if first > 0 else math.nan
