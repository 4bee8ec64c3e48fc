"""Reliability diagrams as a table: what the truth is on average where a predictor says q."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.stats.calibration import (
    binned,
    clipped,
    confidence_band,
    consistency_band,
    corp_curve,
    evaluate,
)
from analysis.value_accuracy.cells import Cell
from analysis.value_accuracy.settings import Settings
from analysis.value_accuracy.states import BOUNDARY

CURVE, BIN = "curve", "bin"
NUM_POINTS = 41  # of the curve of a predictor with more distinct values
NUM_BINS = 10


def reliability_rows(cells: Sequence[Cell], settings: Settings) -> list[dict[str, Any]]:
    """Rows of `value_accuracy_reliability.csv`, for the step boundaries.

    A row of kind "curve" is a point of the CORP curve with both bands, at every prediction or at
    41 of them; one of kind "bin" the mean prediction and truth of the states in a tenth of [0, 1].
    Predictions outside of [0, 1] are moved to its ends, as in the Brier score.
    """
    rows = []
    for cell in cells:
        if cell.group == BOUNDARY:
            rows += [cell.columns() | row for row in _curve(cell, settings)]
            rows += [cell.columns() | row for row in _bins(cell)]
    return rows


def _curve(cell: Cell, settings: Settings) -> list[dict[str, Any]]:
    predictions_N = clipped(cell.values_N, 0)
    truth = cell.num_correct_N, cell.num_samples
    points, fitted = corp_curve(predictions_N, *truth)
    at = points
    if len(points) > NUM_POINTS:
        at = np.linspace(points[0], points[-1], NUM_POINTS)
    consistency = consistency_band(
        predictions_N,
        cell.num_samples,
        at,
        settings.generator,
        num_resamples=settings.num_refits,
        level=settings.level,
    )
    confidence = confidence_band(
        predictions_N,
        *truth,
        cell.problem_N,
        at,
        settings.generator,
        num_resamples=settings.num_refits,
        level=settings.level,
    )
    columns = (at, evaluate(points, fitted, at), *consistency, *confidence)
    return [_row(CURVE, *numbers) for numbers in zip(*columns, strict=True)]


def _bins(cell: Cell) -> list[dict[str, Any]]:
    predictions_N = clipped(cell.values_N, 0)
    found = binned(predictions_N, cell.num_correct_N, cell.num_samples, NUM_BINS)
    return [_row(BIN, of.prediction, of.truth) | {"num_states": of.num_states} for of in found]


def _row(kind: str, prediction: float, truth: float, *bands: float) -> dict[str, Any]:
    names = ("consistency_low", "consistency_high", "confidence_low", "confidence_high")
    numbers = map(float, bands) if bands else (None,) * len(names)
    return {
        "kind": kind,
        "prediction": float(prediction),
        "truth": float(truth),
        **dict(zip(names, numbers, strict=True)),
        "num_states": None,
    }
