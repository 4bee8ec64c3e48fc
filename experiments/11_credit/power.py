"""How many seeds and answers a difference of pass@1 needs: writes seeds_needed.csv.

    python -m analysis experiments/11_credit/power.py FOLDER --difference 0.05 --out OUT

In each setting on its own, of methods that are taken to spread alike, on *these* problems.
"""

import argparse
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, chi2, nct, t

from analysis import counts
from analysis.stats.bootstrap import LEVEL, Estimate
from analysis.tables import Table
from vineppo.errors import UserError

# The fewest seeds of each method at which the t-test finds `difference` with the chance `wanted`;
# empty where 10,000 are not enough. `num_samples` answers a pass@1; empty: without any noise.
SEEDS = Table(
    "seeds_needed.csv",
    {"setting": str, "test": str, "num_samples": int | None, "noise_sd": float}
    | {"difference": float, "wanted": float, "num_seeds": int | None},
)
WELCH, PAIRED = "welch", "paired"
MORE_SAMPLES = (1, 4, 16, math.inf)  # times the answers that there were
MAX_SEEDS = 10_000
NUM_QUANTILES = 128  # of the variances' ratio


@dataclass(frozen=True)
class Spread:
    """What a run's score varies by: its seed, and the answers that were sampled to measure it.

    `correlation` is that of both methods' true scores at the same seed; None of independent seeds.
    """

    seed_sd: float
    noise_sd: float = 0.0
    correlation: float | None = None


@dataclass(frozen=True)
class Components:
    """`Spread` as estimated, and how well: the interval of the seeds' standard deviation.

    `df` are the effective degrees of freedom of the variance over seeds; `num_pairs` is how many
    pairs of scores, of different methods at one seed, the correlation comes from.
    """

    spread: Spread
    seed_sd: Estimate
    df: float
    num_pairs: int


def add_options(parser: argparse.ArgumentParser) -> None:
    text = "Find this difference of pass@1."
    parser.add_argument("--difference", type=float, required=True, metavar="0.02", help=text)
    text = "Find it with this chance, by a two-sided test at 5 %%."
    parser.add_argument("--power", type=float, default=0.8, help=text)
    counts.add_place(parser)


def run(paths: list[Path], out: Path, difference: float, power: float, at: str) -> list[Any]:
    """Each path is a run directory, or a folder with the evaluations.parquet of `compare`."""
    if not 0 < difference < 1 or not 0.05 < power < 1:
        raise UserError("--difference must be in 0..1 and --power in 0.05..1")
    rows, _ = counts.read(paths)
    needed = []
    for setting, of_setting in rows.groupby("setting", sort=False):
        about, measured = components_of(of_setting, at)
        for test, num_samples, spread in designs(measured, about["num_samples"]):
            needed.append(
                {"setting": setting, "test": test, "num_samples": num_samples}
                | {"difference": difference, "noise_sd": spread.noise_sd, "wanted": power}
                | {"num_seeds": seeds_needed(difference, spread, power)}
            )
    return SEEDS.write(out, needed)


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
        parts = components(scores, float(noise_N.mean()))
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


def components(
    methods: Sequence[Mapping[int, float]], noise: float, level: float = LEVEL
) -> Components:
    """The components from scores by seed, of methods that are taken to spread alike.

    `noise` is the variance of a score that comes from sampling answers. With s² the variances of
    the methods over their seeds, pooled by degrees of freedom, seed² is s² − noise (0 where that is
    negative). The correlation ρ̂ is the covariance of two methods over the seeds of both, pooled
    over all pairs of methods, over seed². The interval is that of χ² for s², less the noise, with
    df/(1 + (M − 1) r²) degrees of freedom of M methods whose scores correlate r = covariance/s²:
    methods that share their seeds tell less than independent ones. Raises `ValueError` where no
    method has 2 seeds.

    (0.4, 0.6) and (0.5, 0.7) at the seeds 1 and 2 without noise: seed² = 0.02, correlation 1, one
    degree of freedom.
    """
    deviations = [
        np.subtract(list(scores.values()), np.mean(list(scores.values()))) for scores in methods
    ]
    df = sum(len(scores) - 1 for scores in methods)
    if df < 1:
        raise ValueError("seeds must be at least 2 of a method, got 1 of each")
    total = float(sum((scores**2).sum() for scores in deviations)) / df
    of_seeds = max(total - noise, 0.0)
    products, pairs_df, num_pairs = 0.0, 0, 0
    for first, other in combinations(methods, 2):
        if len(shared := sorted(first.keys() & other.keys())) > 1:
            both = [[scores[seed] for seed in shared] for scores in (first, other)]
            products += float(np.cov(both)[0, 1]) * (len(shared) - 1)
            pairs_df += len(shared) - 1
            num_pairs += len(shared)
    correlation, effective = None, float(df)
    if pairs_df:
        covariance = products / pairs_df
        correlation = float(np.clip(covariance / of_seeds, -1, 1)) if of_seeds > 0 else 0.0
        of_scores = min(abs(covariance / total), 1.0) if total > 0 else 0.0
        effective = df / (1 + (len(methods) - 1) * of_scores**2)
    ends = (
        max(effective * total / chi2.ppf((1 + sign * level) / 2, effective) - noise, 0.0) ** 0.5
        for sign in (1, -1)
    )
    seed_spread = Spread(of_seeds**0.5, noise**0.5, correlation)
    return Components(seed_spread, Estimate(of_seeds**0.5, *ends), effective, num_pairs)


def power(num_seeds: int, delta: float, components: Spread, level: float = LEVEL) -> float:
    """Chance that `welch` (`paired` if there is a correlation) finds a true effect `delta`.

    At n seeds of each method, of normal scores that spread alike, T is noncentral t with
    noncentrality δ/√(v/n). Paired: v = 2(seed²(1 − ρ) + noise²), n − 1 degrees of freedom.
    Independent: v = 2(seed² + noise²) and 2(n − 1). Welch's critical value then depends on
    u = s²ₓ/(s²ₓ + s²ᵧ) alone, by (n − 1)/(u² + (1 − u)²) degrees of freedom; u is Beta with
    (n − 1)/2 twice and independent of T, so that the mean over its quantiles is exact. Source:
    Cohen, 1988, chapter 2; Johnson, Kotz & Balakrishnan, 1995, chapter 31.

    2.5 standard deviations, 3 independent seeds: 0.527, where Student's t has 0.636. 1 where
    nothing varies.
    """
    shared = 0.0 if components.correlation is None else components.correlation
    variance = 2 * (components.seed_sd**2 * (1 - shared) + components.noise_sd**2)
    if variance <= 0:
        return 1.0
    df, shift = num_seeds - 1, abs(delta) / (variance / num_seeds) ** 0.5
    critical_Q = np.array([t.ppf((1 + level) / 2, df)])
    if components.correlation is None:
        u_Q = beta.ppf((np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES, df / 2, df / 2)
        critical_Q, df = t.ppf((1 + level) / 2, df / (u_Q**2 + (1 - u_Q) ** 2)), 2 * df
    # The lower tail as the upper one of the other sign: scipy's cdf is NaN far from 0.
    return float(np.mean(nct.sf(critical_Q, df, shift) + nct.sf(critical_Q, df, -shift)))


def seeds_needed(
    delta: float, components: Spread, wanted: float = 0.8, level: float = LEVEL
) -> int | None:
    """The fewest seeds of each method, from 2, at which `power` is at least `wanted`.

    One standard deviation at 80 %: 17 independent seeds; with pairs that correlate 0.9, 4. None
    where 10,000 are not enough, as for an effect of 0.
    """
    numbers = range(2, MAX_SEEDS + 1)
    place = bisect_left(numbers, wanted, key=lambda n: power(n, delta, components, level))
    return numbers[place] if place < len(numbers) else None
