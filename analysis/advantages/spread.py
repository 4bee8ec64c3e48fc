"""The distribution of step advantages: over all steps, by place in the response, by rollout."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.advantages.credit import RunIteration
from analysis.advantages.steps import Steps
from analysis.old_tables import estimate_columns
from analysis.stats.bootstrap import (
    BOOTSTRAP_SEED,
    LEVEL,
    Estimate,
    bootstrap_sums,
    mean,
    mean_terms,
)

NUM_RESAMPLES = 2000
NUM_BINS = 5  # of the axis "relative"
AXES = ("start", "end", "relative")
PROBABILITIES = tuple(i / 50 for i in range(51))


@dataclass(frozen=True)
class OfSteps(RunIteration):
    """Which steps: of one source and one group of rollouts (all, correct, incorrect)."""

    source: str
    group: str


@dataclass(frozen=True)
class SpreadRow(OfSteps):
    """Row of advantages.csv.

    `near_zero` is the share of steps with |A| below `near_zero_below`, `zero` that of exact zeros.
    Over the `num_critical_rollouts` that have a critical step, `top_share` is the mean share of a
    rollout's Σ|A| that its largest step carries, and `even_share` the mean of 1/S, what it would be
    if all steps were alike. Intervals are over problems.
    """

    num_rollouts: int
    num_steps: int
    mean: float
    std: float
    mean_abs: float
    near_zero_below: float
    near_zero: float
    near_zero_low: float | None
    near_zero_high: float | None
    zero: float
    num_critical_rollouts: int
    top_share: float | None
    top_share_low: float | None
    top_share_high: float | None
    even_share: float | None


@dataclass(frozen=True)
class QuantileRow(OfSteps):
    """Row of advantages_quantiles.csv: `probability` of the steps have at most this `advantage`.

    It is the least that so many have (the inverse of the empirical distribution function).
    """

    probability: float
    advantage: float


@dataclass(frozen=True)
class PlaceRow(OfSteps):
    """Row of advantages_by_place.csv: the steps at one place of their responses.

    `bin` counts steps from the start or the end from 0, or fifths of the response (`relative`: a
    step's middle, (i + ½)/S). `critical` is the share of critical steps that lie here and `even`
    what it would be if each of a rollout's steps were as likely; None without critical steps.
    """

    axis: str
    bin: int
    num_steps: int
    mean: float
    mean_abs: float
    near_zero: float
    q05: float
    q25: float
    q50: float
    q75: float
    q95: float
    critical: float | None
    even: float | None


def spread_row(of: OfSteps, steps: Steps, near_zero_below: float) -> SpreadRow:
    sizes_N = np.abs(steps.advantage_N)
    shares_M, even_M, problem_M = top_shares(steps)
    columns: dict[str, Any] = {
        "num_rollouts": len(np.unique(steps.rollout_N)),
        "num_steps": len(steps),
        "mean": float(steps.advantage_N.mean()),
        "std": float(steps.advantage_N.std()),
        "mean_abs": float(sizes_N.mean()),
        "near_zero_below": near_zero_below,
        **estimate_columns("near_zero", over_problems(sizes_N < near_zero_below, steps.problem_N)),
        "zero": float((sizes_N == 0).mean()),
        "num_critical_rollouts": len(shares_M),
        **estimate_columns("top_share", over_problems(shares_M, problem_M)),
        "even_share": float(even_M.mean()) if len(even_M) else None,
    }
    return SpreadRow(**vars(of), **columns)


def top_shares(steps: Steps) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """max|A| / Σ|A|, 1/S and the problem of every rollout that has a critical step, [M] each.

    Advantages (0.1, −0.3) have a top share of 0.75 where 0.5 would be even.
    """
    known = steps.where(~np.isnan(steps.critical_N))
    _, first_M, index_N = np.unique(known.rollout_N, return_index=True, return_inverse=True)
    sizes_N = np.abs(known.advantage_N)
    largest_M = np.zeros(len(first_M))
    np.maximum.at(largest_M, index_N, sizes_N)
    totals_M = np.bincount(index_N, sizes_N, minlength=len(first_M))
    return largest_M / totals_M, known.even_N[first_M], known.problem_N[first_M]


def over_problems(values_N: np.ndarray, problem_N: np.ndarray) -> Estimate:
    """The mean with its interval over resampled problems; NaN of nothing."""
    if not len(values_N):
        return Estimate(float("nan"), None, None)
    generator = np.random.default_rng(BOOTSTRAP_SEED)
    terms = mean_terms(values_N.astype(float))
    statistics = {"mean": mean}
    return bootstrap_sums(
        terms, problem_N, statistics, generator, num_resamples=NUM_RESAMPLES, level=LEVEL
    )["mean"]


def quantile_rows(of: OfSteps, steps: Steps) -> list[QuantileRow]:
    quantiles = np.quantile(steps.advantage_N, PROBABILITIES, method="inverted_cdf")
    return [
        QuantileRow(**vars(of), probability=probability, advantage=float(quantile))
        for probability, quantile in zip(PROBABILITIES, quantiles, strict=True)
    ]


def place_rows(of: OfSteps, steps: Steps, near_zero_below: float) -> Iterator[PlaceRow]:
    num_critical = np.nansum(steps.critical_N)
    for axis in AXES:
        bin_N = bins(axis, steps)
        for index in np.unique(bin_N):
            here = steps.where(bin_N == index)
            sizes_N = np.abs(here.advantage_N)
            q05, q25, q50, q75, q95 = map(
                float, np.quantile(here.advantage_N, [0.05, 0.25, 0.5, 0.75, 0.95])
            )
            yield PlaceRow(
                **vars(of), axis=axis, bin=int(index), num_steps=len(here),
                mean=float(here.advantage_N.mean()), mean_abs=float(sizes_N.mean()),
                near_zero=float((sizes_N < near_zero_below).mean()),
                q05=q05, q25=q25, q50=q50, q75=q75, q95=q95,
                critical=float(np.nansum(here.critical_N) / num_critical) if num_critical else None,
                even=float(np.nansum(here.even_N) / num_critical) if num_critical else None,
            )  # fmt: skip


def bins(axis: str, steps: Steps) -> np.ndarray:
    """The bin of every step: of S = 4 steps (0, 1, 3, 4) by `relative`, (3, 2, 1, 0) by `end`."""
    if axis == "start":
        return steps.step_N
    if axis == "end":
        return steps.num_steps_N - 1 - steps.step_N
    return (NUM_BINS * (steps.step_N + 0.5) / steps.num_steps_N).astype(int)
