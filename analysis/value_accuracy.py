"""`value-accuracy`: what a value estimate is worth, measured against many fresh continuations.

Every state that `ground-truth` sampled gets the predictors' values. t = c/m is the measured truth
of a state, v a prediction. docs/analysis.md explains each metric.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import options, value_figures
from analysis.stats.bootstrap import Estimate
from analysis.stats.value_scores import NUM_RESAMPLES, Cell, scores
from analysis.tables import Table
from analysis.value_states import (
    BOUNDARIES,
    QUERY,
    STATES_NAME,
    num_draws,
    order,
    read_states,
    strata,
    write_states,
)
from vineppo.types import question_of

NAME, STEM = "value-accuracy", "value_accuracy"
# Which states a number is of: those of the `seeds` of a method at a checkpoint. `is_own_policy` is
# 0 where the training's predictions are of the policy one update before that of the truth.
OF_STATES: dict[str, Any] = {"method": str, "seeds": str, "checkpoint": int}
OF_STATES |= {"is_own_policy": int, "predictor": str}
# One metric of a predictor on a stratum of the states: all step boundaries, the queries, or, of all
# seeds together, the boundaries by position, outcome or true value. What is undefined has no row.
SCORES = Table(
    f"{STEM}.csv",
    OF_STATES
    | {"stratum": str, "metric": str, "value": Estimate, "num_states": int, "num_problems": int},
)
METRICS_OF_STRATA = ("prediction_mean", "truth_mean", "bias", "mae", "mae_floor", "mse_corrected")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_truth(parser)
    options.add_continuations(parser, "1,3,9", "Score mc_K and mc_train_K of these K.")


def run(
    paths: list[Path], out: Path, truth: list[Path], continuations: tuple[int, ...]
) -> list[Path]:
    """Writes the states, their scores and the figures; returns the paths.

    Each path is a run directory with ground truth, or a directory with a
    value_accuracy_states.parquet to score again.
    """
    states = read_states(paths, out, truth, continuations)
    scores = score_states(states, num_resamples=NUM_RESAMPLES)
    write_states(out / STATES_NAME, states)
    written = [out / STATES_NAME, *SCORES.write(out, scores)]
    if (scores["stratum"] == BOUNDARIES).any():
        written += [
            *value_figures.draw_overview(scores, out / STEM),
            *value_figures.draw_scatter(states, out / f"{STEM}_scatter"),
        ]
    return written


def make_cells(states: pd.DataFrame, *, each_seed: bool = True) -> Iterator[Cell]:
    """The cells of every seed, unless not wanted, and of all seeds of a method together."""
    question = states["problem_id"].map(question_of)
    unit = states["seed"].astype(str) + " " + question
    states = states.assign(
        problem=pd.factorize(question, sort=True)[0],
        unit=pd.factorize(unit, sort=True)[0],
    )
    for (method, checkpoint), at in sorted_groups(states):
        for predictor in sorted(at["predictor"].unique(), key=order):
            whole = at[at["predictor"] == predictor]
            seeds = sorted(whole["seed"].unique())
            parts = [[seed] for seed in seeds] if each_seed and len(seeds) > 1 else []
            for part in [*parts, seeds]:
                chosen = whole[whole["seed"].isin(part)]
                about = {
                    "method": method,
                    "seeds": " ".join(map(str, part)),
                    "checkpoint": checkpoint,
                    "is_own_policy": int((chosen["rollout_iteration"] == checkpoint + 1).all()),
                    "predictor": predictor,
                }
                yield Cell(about, len(part) == len(seeds), num_draws(predictor), chosen)


def sorted_groups(frame: pd.DataFrame) -> list[tuple[tuple[str, int], pd.DataFrame]]:
    """By method in order of first sight, then by checkpoint."""
    return [
        ((str(method), int(checkpoint)), at)
        for method, group in frame.groupby("method", sort=False)
        for checkpoint, at in group.groupby("checkpoint")
    ]


def score_states(
    states: pd.DataFrame, *, each_seed: bool = True, num_resamples: int = NUM_RESAMPLES
) -> pd.DataFrame:
    """The `SCORES`, with fewer metrics on strata of the boundaries."""
    rows: list[dict[str, Any]] = []
    for cell in make_cells(states, each_seed=each_seed):
        for stratum, chosen_N in strata(cell).items():
            is_whole_stratum = stratum in (BOUNDARIES, QUERY)
            part = cell.where(chosen_N)
            if part.states.empty or not (is_whole_stratum or cell.is_whole):
                continue
            found = scores(part, None if is_whole_stratum else METRICS_OF_STRATA, num_resamples)
            about = part.row() | {"stratum": stratum}
            rows += [
                about | {"metric": metric, "value": estimate}
                for metric, estimate in found.items()
                if math.isfinite(estimate.value)
            ]
    return SCORES.frame(rows)
