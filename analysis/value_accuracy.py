"""`value-accuracy`: what a value estimate is worth, measured against many fresh continuations.

Every state that `ground-truth` sampled gets the values that the predictors give it. t = c/m is the
measured truth of a state, v a prediction; what each metric means is told in docs/analysis.md.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track

from analysis import options, value_figures
from analysis.stats import calibration
from analysis.stats.bootstrap import Estimate
from analysis.stats.value_scores import Cell, Settings, differences, error_scores, scores
from analysis.summary import write_summary
from analysis.tables import Table, estimate
from analysis.value_figures import BIN, CURVE, EXACT, shown
from analysis.value_states import (
    BOUNDARIES,
    QUERY,
    STATE,
    STATES_NAME,
    Wanted,
    baseline_of,
    num_draws,
    order,
    read_states,
    strata,
    write_states,
)

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
# The truth where a predictor says `prediction`, on the step boundaries of all seeds together: a
# point of the CORP curve with its confidence band ("curve"), where that curve would lie if every
# prediction were exact ("exact"), or the means of a tenth of [0, 1] ("bin").
RELIABILITY = Table(
    f"{STEM}_reliability.csv",
    OF_STATES | {"kind": str, "prediction": float, "truth": Estimate, "num_states": int | None},
)
NUM_POINTS = 41  # of the curve of a predictor with more distinct values
NUM_BINS = 10
METRICS_OF_STRATA = ("prediction_mean", "truth_mean", "bias", "mae", "mae_floor", "mse_corrected")
SUMMARY_METRICS = (
    "bias", "mae", "mae_floor", "mse_corrected", "equivalent_draws", "accuracy",
    "pearson_disattenuated", "pearson_within_disattenuated", "brier_miscalibration",
)  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_truth(parser)
    parser.add_argument(
        "--predictors", metavar="NAME,…", help="mc_9, mc_train_9, critic, …; without: all of a run"
    )
    parser.add_argument(
        "--continuations", default="1,3,9", metavar="K,K…",
        help="of mc_K and mc_train_K, besides the training's",
    )  # fmt: skip
    options.add_numbers(
        parser,
        threshold=(Settings.threshold, "accuracy: |error| at most this"),
        level=(Settings.level, "of intervals"),
        num_resamples=(Settings.num_resamples, "of problems, by interval"),
        num_refits=(
            Settings.num_refits,
            "the same where each is ranked or fitted anew: Spearman, scores, bands",
        ),
        seed=(Settings.seed, "which problems are resampled"),
    )


def run(
    paths: list[Path],
    out: Path,
    truth: Path | None,
    predictors: str | None,
    continuations: str,
    **settings: Any,
) -> list[Path]:
    """Writes three tables, the figures and a summary; returns their paths.

    Each path is a run directory whose ground truth has been made, or a directory whose
    value_accuracy_states.parquet is scored again.
    """
    chosen = Settings(**settings)
    names = None if predictors is None else tuple(map(str.strip, predictors.split(",")))
    wanted = Wanted(names, options.parse_continuations(continuations))
    states = read_states(paths, out, truth, wanted)
    scores = score_states(states, chosen)
    curves = reliability(states, chosen)
    write_states(out / STATES_NAME, states)
    written = [out / STATES_NAME, *SCORES.write(out, scores), *RELIABILITY.write(out, curves)]
    if not curves.empty:
        written += [
            *value_figures.draw_overview(scores, out / STEM),
            *value_figures.draw_scatter(states, out / f"{STEM}_scatter"),
            *value_figures.draw_reliability(curves, out / f"{STEM}_reliability"),
            *value_figures.draw_strata(scores, out / f"{STEM}_strata"),
        ]
    return [*written, write_summary(out, NAME, summary_content(scores, chosen))]


def make_cells(states: pd.DataFrame, *, each_seed: bool = True) -> Iterator[Cell]:
    """Of every seed, unless not wanted, and of all seeds of a method together."""
    unit = states["seed"].astype(str) + " " + states["problem_id"]
    states = states.assign(
        problem=pd.factorize(states["problem_id"], sort=True)[0],
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
    states: pd.DataFrame, settings: Settings, *, each_seed: bool = True
) -> pd.DataFrame:
    """The `SCORES`: a predictor's metrics, and those less the baseline's (`mae_minus_mc_9`)."""
    baselines = {
        place: group[group["predictor"] == baseline_of(group["predictor"].unique())]
        for place, group in sorted_groups(states)
    }
    rows: list[dict[str, Any]] = []
    for cell in progress(list(make_cells(states, each_seed=each_seed))):
        baseline = baselines[cell.about["method"], cell.about["checkpoint"]]
        for stratum, chosen_N in strata(cell).items():
            part = cell.where(chosen_N)
            if part.states.empty:
                continue
            if stratum in (BOUNDARIES, QUERY):
                rows += _score_rows(part, stratum, scores(part, settings))
                rows += difference_rows(part, stratum, baseline, settings)
            elif cell.is_whole:
                rows += _score_rows(part, stratum, error_scores(part, settings, METRICS_OF_STRATA))
    return SCORES.frame(rows)


def progress(cells: Sequence[Cell]) -> Iterator[Cell]:
    console = Console(stderr=True)
    yield from track(cells, NAME, console=console, transient=True, disable=not console.is_terminal)


def _score_rows(
    cell: Cell, stratum: str, estimates: Mapping[str, Estimate]
) -> list[dict[str, Any]]:
    about = cell.row() | {"stratum": stratum}
    return [
        about | {"metric": metric, "value": estimate}
        for metric, estimate in estimates.items()
        if math.isfinite(estimate.value)
    ]


def difference_rows(
    cell: Cell, stratum: str, baseline: pd.DataFrame, settings: Settings
) -> list[dict[str, Any]]:
    """A cell's metrics less the baseline's, on the states where both have a prediction."""
    of_baseline = baseline[[*STATE, "predictor", "prediction"]]
    common = cell.states.merge(of_baseline, on=STATE, suffixes=("", "_of_baseline"))
    name = common["predictor_of_baseline"].max()  # the same in all rows
    if common.empty or name == cell.about["predictor"]:
        return []
    shared = replace(cell, states=common)
    estimates = differences(shared, common["prediction_of_baseline"].to_numpy(), settings)
    return _score_rows(
        shared, stratum, {f"{key}_minus_{name}": estimate for key, estimate in estimates.items()}
    )


def reliability(states: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """The `RELIABILITY`, at every prediction or at 41 of them, and of tenths of [0, 1].

    Predictions outside of [0, 1] are moved to its ends, as in the Brier score.
    """
    rows: list[dict[str, Any]] = []
    for cell in progress(list(make_cells(states[states["position"] > 0], each_seed=False))):
        values_N = calibration.clipped(cell.values, 0)
        points, fitted = calibration.corp_curve(values_N, *cell.truth)
        is_short = len(points) <= NUM_POINTS
        at = points if is_short else np.linspace(points[0], points[-1], NUM_POINTS)
        exact = calibration.consistency_band(
            values_N, cell.num_samples, at, settings.generator, **settings.refits
        )
        drawn_anew = calibration.confidence_band(
            values_N, *cell.truth, cell["problem"], at, settings.generator, **settings.refits
        )
        curve = calibration.evaluate(points, fitted, at)
        for kind, truth, band in ((CURVE, curve, drawn_anew), (EXACT, at, exact)):
            rows += [
                cell.about | {"kind": kind, "prediction": q, "truth": Estimate(*numbers)}
                for q, *numbers in zip(at, truth, *band, strict=True)
            ]
        rows += [
            cell.about
            | {"kind": BIN, "prediction": one_bin.prediction, "num_states": one_bin.num_states}
            | {"truth": Estimate(one_bin.truth, None, None)}
            for one_bin in calibration.binned(values_N, *cell.truth, NUM_BINS)
        ]
    return RELIABILITY.frame(rows)


def summary_content(rows: pd.DataFrame, settings: Settings) -> dict[str, Any]:
    """The main numbers on the step boundaries, by method, checkpoint and predictor."""
    methods: dict[str, Any] = {}
    rows = shown(rows[rows["stratum"] == BOUNDARIES])
    for row in rows[rows["metric"].isin(SUMMARY_METRICS)].to_dict("records"):
        of_method = methods.setdefault(row["method"], {})
        of_checkpoint = of_method.setdefault(str(row["checkpoint"]), {})
        about = {name: row[name] for name in ("seeds", "num_states", "num_problems")}
        about |= {"is_own_policy": bool(row["is_own_policy"])}
        of_checkpoint.setdefault(row["predictor"], about)[row["metric"]] = estimate(row, "value")
    return {"level": settings.level, "threshold": settings.threshold, "methods": methods}
