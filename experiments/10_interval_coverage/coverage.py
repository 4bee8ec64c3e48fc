"""Intervals over seeds in simulated worlds: how often each holds the true effect.

In the suffixes S are seeds, P the problems of the test set, which all runs answer `num_samples`
times each. On problems like these the problems vary too, and more seeds do not make up for few of
them: `crossed`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from scipy.stats import t, ttest_rel

from analysis.stats.bootstrap import LEVEL, Estimate
from analysis.stats.comparison import Comparison, t_test, welch
from analysis.stats.errors import estimated_value
from analysis.stats.seeds import Scores, difference_of, iqm_difference, over_seeds


def paired(method_S: Scores, baseline_S: Scores, level: float = LEVEL) -> Comparison:
    """Mean of the differences seed by seed, which spread less where seeds are alike in both.

    t = d̄/(s_d/√S) with S − 1 degrees of freedom: about half of Welch's, so pairing without a
    correlation loses. Raises `ValueError` for other numbers of seeds.

    (0.6, 0.7, 0.8) against (0.5, 0.5, 0.8): differences 0.1, 0.2, 0: 0.1 ± 4.303 · 0.0577.
    """
    num_method, num_baseline = len(method_S), len(baseline_S)
    if num_method != num_baseline:
        raise ValueError(f"pairs must have as many seeds, got {num_method} and {num_baseline}")
    return t_test(ttest_rel, method_S, baseline_S, level)


def crossed(
    method_SP: np.ndarray,
    baseline_SP: np.ndarray,
    num_samples: int,
    *,
    is_paired: bool = True,
    level: float = LEVEL,
) -> Comparison:
    """Difference over seeds *and* problems drawn anew, from counts of right answers by both.

    With d_sp the difference of seed s on problem p, d_sp = δ + a_s + b_p + e_sp, all random with
    mean 0 and e_sp holding the noise of sampling answers. δ̂ is the mean of all, and

        Var δ̂ = σ²_a/S + σ²_b/P + σ²_e/SP,  estimated by  V = V_seeds + V_problems − V_cells,

    V_seeds the variance of the S row means over S, V_problems that of the P column means over P and
    V_cells the residual mean square over SP, each with expectation of its own part plus σ²_e/SP
    (method of moments in the balanced two-way layout; a component below 0 counts as 0). δ̂/√V is
    nearly t with V²/Σ(V_i²/df_i) degrees of freedom. Source: Searle, Casella & McCulloch, 1992,
    chapter 4; Satterthwaite, 1946; Clark, 1973, for subjects and items. V is the two-way clustered
    variance of Cameron, Gelbach & Miller, 2011.

    Of seeds that are not paired each method has its own V_seeds and V_cells, summed; problems are
    always paired. One seed or problem has no interval. Raises `ValueError` for counts that are no
    [S, P] of the same problems and, paired, the same seeds.

    Differences (0, 1) and (0, 1) of two seeds on two problems: 0.5, V = 0 + 0.25 − 0, one degree
    of freedom.
    """
    shape, other_shape = np.shape(method_SP), np.shape(baseline_SP)
    is_alike = shape == other_shape if is_paired else shape[1:] == other_shape[1:]
    if len(shape) != 2 or not is_alike:
        raise ValueError(f"counts must be [S, P] of the same, got {shape} and {other_shape}")
    rates_SP, others_SP = (
        estimated_value(counts_SP, num_samples) for counts_SP in (method_SP, baseline_SP)
    )
    tables = [rates_SP - others_SP] if is_paired else [rates_SP, -others_SP]
    effect_P = np.sum([table_SP.mean(axis=0) for table_SP in tables], axis=0)
    value, num_problems = float(effect_P.mean()), len(effect_P)
    if min(num_problems, *map(len, tables)) < 2:
        return Comparison(Estimate(value, None, None))
    # Each variance of δ̂ with its degrees of freedom.
    cells = list(map(_residual_variance, tables))
    noise = sum(of_cells for of_cells, _ in cells)
    parts = [(max(effect_P.var(ddof=1) / num_problems, noise), num_problems - 1)]
    for table_SP, (own_noise, _) in zip(tables, cells, strict=True):
        of_seeds = table_SP.mean(axis=1).var(ddof=1) / len(table_SP)
        parts.append((max(of_seeds, own_noise), len(table_SP) - 1))
    variance = float(sum(part for part, _ in parts) - noise)
    if variance <= 0:
        return Comparison(Estimate(value, None, None))
    satterthwaite = variance**2 / sum(part**2 / df for part, df in [*parts, *cells])
    df = max(float(satterthwaite), min(df for _, df in parts))  # a sum has no fewer than its parts
    error = variance**0.5
    low, high = t.interval(level, df, value, error)
    p_value = float(2 * t.sf(abs(value) / error, df))
    return Comparison(Estimate(value, float(low), float(high)), df, p_value)


@dataclass(frozen=True)
class World:
    """Runs whose true effects are known, for `coverage`.

    A problem has a baseline rate in 0.3 to 0.6 and an effect of its own, uniform about `effect`; a
    seed shifts a run by normal noise and, `cell_sd`, each of its problems by uniform noise.
    """

    effect: float = 0.05
    seed_sd: float = 0.02
    problem_sd: float = 0.1
    cell_sd: float = 0.05
    correlation: float = 0.0
    num_problems: int = 100
    num_samples: int = 16

    def draw(self, num_seeds: int, generator: np.random.Generator) -> tuple[np.ndarray, float]:
        """Counts of method and baseline, [2, S, P], and the effect on the problems drawn."""
        effect_P = self.effect + self.problem_sd * _unit_uniform(generator, self.num_problems)
        own_2S1 = generator.normal(0, (1 - self.correlation) ** 0.5, (2, num_seeds, 1))
        both_S1 = generator.normal(0, self.correlation**0.5, (num_seeds, 1))
        rates_2SP = (
            generator.uniform(0.3, 0.6, self.num_problems)
            + np.array([1, 0])[:, None, None] * effect_P
            + self.seed_sd * (own_2S1 + both_S1)
            + self.cell_sd * _unit_uniform(generator, (2, num_seeds, self.num_problems))
        )
        return generator.binomial(self.num_samples, np.clip(rates_2SP, 0, 1)), effect_P.mean()


Interval = Callable[[np.ndarray, np.ndarray, int], Estimate]  # of both methods' counts


def _of_scores(interval: Callable[[np.ndarray, np.ndarray], Estimate]) -> Interval:
    return lambda x_SP, y_SP, m: interval(x_SP.mean(axis=1) / m, y_SP.mean(axis=1) / m)


INTERVALS: Mapping[str, Interval] = {
    "welch": _of_scores(lambda x_S, y_S: welch(x_S, y_S).effect),
    "paired": _of_scores(lambda x_S, y_S: paired(x_S, y_S).effect),
    "bootstrap of means": _of_scores(lambda x, y: over_seeds(difference_of(np.mean), x, y)),
    "bootstrap of IQMs": _of_scores(iqm_difference),
    "crossed": lambda x_SP, y_SP, m: crossed(x_SP, y_SP, m, is_paired=False).effect,
    "crossed, paired": lambda x_SP, y_SP, m: crossed(x_SP, y_SP, m).effect,
}


def coverage(
    num_seeds: int,
    num_runs: int,
    generator: np.random.Generator,
    world: World = World(),
    intervals: Sequence[str] = tuple(INTERVALS),
) -> list[dict[str, Any]]:
    """How often intervals of 95 % hold the true effect, a row an interval.

    `these_problems` is the share of `num_runs` simulated comparisons whose interval holds the
    effect on the problems that were drawn, `new_problems` on all that there could be; `width` is
    the mean one. A share has a standard error of √(share·(1 − share)/num_runs).
    """
    sums = np.zeros((len(intervals), 3))
    for _ in range(num_runs):
        counts_2SP, effect = world.draw(num_seeds, generator)
        for sums_3, name in zip(sums, intervals, strict=True):
            estimate = INTERVALS[name](counts_2SP[0], counts_2SP[1], world.num_samples)
            _, low, high = np.array(astuple(estimate), dtype=float)  # None becomes NaN
            sums_3 += low <= effect <= high, low <= world.effect <= high, high - low
    columns = ("num_seeds", "interval", "these_problems", "new_problems", "width")
    return [
        dict(zip(columns, (num_seeds, name, *means), strict=True))
        for name, means in zip(intervals, (sums / num_runs).tolist(), strict=True)
    ]


def _residual_variance(table_SP: np.ndarray) -> tuple[float, int]:
    """σ²_e/SP by what rows and columns leave of the cells, and its degrees of freedom."""
    rows_S1, columns_P = table_SP.mean(axis=1, keepdims=True), table_SP.mean(axis=0)
    residuals_SP = table_SP - rows_S1 - columns_P + table_SP.mean()
    df = (table_SP.shape[0] - 1) * (table_SP.shape[1] - 1)
    return float((residuals_SP**2).sum() / df / table_SP.size), df


def _unit_uniform(generator: np.random.Generator, shape: Any) -> np.ndarray:
    return generator.uniform(-(3**0.5), 3**0.5, shape)  # of standard deviation 1
