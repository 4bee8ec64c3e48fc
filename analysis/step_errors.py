"""`step-errors`: do values fall where others have marked the first wrong step of a solution?

An external test, beside the truth of `ground-truth` and never in its place: what people call wrong
need not lower the policy's chance of success, and what lowers it need not be wrong. The fall of a
step is V before it less V after it.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import options
from analysis.solutions import Solution, read_solutions
from analysis.stats.bootstrap import Estimate, bootstrap_weights
from analysis.summary import write_summary
from analysis.tables import Table, estimate

NAME, FOLDER = "step-errors", "step_errors"
WHOSE: dict[str, Any] = {"method": str, "seed": int, "checkpoint": int, "data": str}
WHOSE |= {"predictor": str}
# V before and after every step; `place` is 0 where the step is the first wrong one, negative before
# it, positive behind it, and empty in a right solution.
VALUES = Table(
    "step_error_values.csv",
    WHOSE
    | {
        "problem": str,
        "solution": str,
        "step_index": int,
        "place": int | None,
        "before": float,
        "after": float,
    },
)
# auc: the chance that the first wrong step falls by more than one before any, ties half; of all
# solutions together. rank: the share of a solution's other steps that fall by more; 0.5 by chance.
# top1: whether none falls by more (ties share), by chance top1_chance.
SCORES = Table(
    "step_errors.csv",
    WHOSE | {"metric": str, "value": Estimate, "num_solutions": int, "num_wrong": int},
)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser)
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FILE",
        help="solutions with their first wrong step (docs/analysis.md has the forms)",
    )  # fmt: skip
    options.add_numbers(
        parser,
        num_solutions=(0, "the first so many of the file; 0: all"),
        num_continuations=(0, "of every state, for values mc_K; 0: none"),
        num_resamples=(2000, "of problems, for intervals"),
        seed=(0, "which continuations, which resamples"),
    )


def run(paths: list[Path], out: Path, checkpoints: str, data: Path, **settings: int) -> list[Path]:
    """Writes the values, their scores and a summary."""
    from analysis.sampling.policies import choose_checkpoints, open_policies
    from analysis.sampling.solutions import solution_values

    options.check_least(settings, num_solutions=0, num_continuations=0, num_resamples=1)
    solutions = read_solutions(data)[: settings["num_solutions"] or None]
    chosen = choose_checkpoints(paths, checkpoints, out, FOLDER, {"data": str(data)} | settings)
    rows: list[dict[str, Any]] = []
    with open_policies(paths, settings["seed"]) as policies:
        for one in chosen:
            whose = {"method": one.config.name, "seed": one.config.seed}
            whose |= {"checkpoint": one.iteration, "data": data.name}
            valued = solution_values(policies, one, solutions, settings["num_continuations"])
            for solution, values in valued:
                for name, values_S in values.items():
                    rows += step_rows(whose | {"predictor": name}, solution, values_S)
    values = VALUES.frame(rows)
    scored = score_rows(values, settings["num_resamples"], settings["seed"])
    return [
        *VALUES.write(out, values),
        *SCORES.write(out, scored),
        write_summary(out, NAME, _summary(scored)),
    ]


def step_rows(
    whose: Mapping[str, Any], solution: Solution, values_S: Sequence[float]
) -> list[dict[str, Any]]:
    wrong = solution.first_wrong
    return [
        {**whose, "problem": solution.problem, "solution": solution.id, "step_index": step}
        | {"before": before, "after": after}
        | {"place": None if wrong is None else step - wrong}
        for step, (before, after) in enumerate(pairwise(values_S))
    ]


def score_rows(values: pd.DataFrame, num_resamples: int, seed: int) -> pd.DataFrame:
    """The `SCORES` of a frame of `VALUES`."""
    rows = []
    for whose, steps in values.groupby(list(WHOSE), sort=False):
        about = dict(zip(WHOSE, whose, strict=True))
        about["num_solutions"] = steps["solution"].nunique()
        about["num_wrong"] = int((steps["place"] == 0).sum())
        estimates = scores(steps, num_resamples, np.random.default_rng(seed))
        rows += [about | {"metric": name, "value": value} for name, value in estimates.items()]
    return SCORES.frame(rows)


def scores(
    steps: pd.DataFrame, num_resamples: int, generator: np.random.Generator
) -> dict[str, Estimate]:
    """With intervals over problems; `steps` are those of one predictor."""
    fall_N = (steps["before"] - steps["after"]).to_numpy(float)
    place_N = steps["place"].to_numpy(float, na_value=np.nan)
    is_wrong_N = place_N == 0
    is_right_N = np.isnan(place_N) | (place_N < 0)
    solution_N = steps["solution"].to_numpy()
    ranks = [
        (n, *_rank(fall_N[solution_N == solution_N[n]], fall_N[n]))
        for n in np.flatnonzero(is_wrong_N)
    ]

    def statistic(weights_N: np.ndarray) -> dict[str, float]:
        found = {"auc": auc(fall_N, weights_N * is_wrong_N, weights_N * is_right_N)}
        for column, name in enumerate(("rank", "top1", "top1_chance"), start=1):
            kept = [(row[column], weights_N[row[0]]) for row in ranks if not np.isnan(row[column])]
            total = sum(weight for _, weight in kept)
            found[name] = sum(x * w for x, w in kept) / total if total else np.nan
        return found

    return bootstrap_weights(
        statistic, steps["problem"].to_numpy(), generator, num_resamples=num_resamples, level=0.95
    )


def auc(score_N: np.ndarray, positive_N: np.ndarray, negative_N: np.ndarray) -> float:
    """P(a positive scores above a negative) + ½ P(they tie), of weights; NaN without either.

    Scores 1, 2, 2, of which the last is positive: (1 + ½)/2 = 0.75.
    """
    values, place_N = np.unique(score_N, return_inverse=True)
    above = np.bincount(place_N, positive_N, len(values))
    below = np.bincount(place_N, negative_N, len(values))
    if not above.sum() or not below.sum():
        return float("nan")
    return float(above @ (np.cumsum(below) - below / 2) / above.sum() / below.sum())


def _rank(falls_S: np.ndarray, own: float) -> tuple[float, float, float]:
    """Share of the others above the own fall, whether none is, and the chance of that."""
    higher, equal = (falls_S > own).sum(), (falls_S == own).sum()
    others = len(falls_S) - 1
    rank = (higher + (equal - 1) / 2) / others if others else np.nan
    return rank, (higher == 0) / equal, 1 / len(falls_S)


def _summary(rows: pd.DataFrame) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    for row in rows.to_dict("records"):
        key = f"{row['method']}, seed {row['seed']}, checkpoint {row['checkpoint']}"
        of_predictor = summary.setdefault(key, {}).setdefault(row["predictor"], {})
        of_predictor[row["metric"]] = estimate(row, "value")
    return summary
