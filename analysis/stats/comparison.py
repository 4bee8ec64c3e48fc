"""Two methods over a handful of seeds: effect, interval, test, and the seeds that a claim needs.

An effect is always `method` minus `baseline`. In the suffixes N and M are seeds of the two methods,
S seeds of both (paired where seed s means the same data order, initial weights or the like in both)
and P the problems of the test set, which all runs answer `num_samples` times each.

On *these* problems only seeds vary: `welch`, `paired`, the bootstraps of `seeds`. On *problems like
these* the problems vary too, and more seeds do not make up for few of them: `crossed`. How far to
trust each at 3 to 16 seeds: `coverage`, with its table in experiments/10_interval_coverage.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from scipy.stats import beta, chi2, nct, t, ttest_ind, ttest_rel

from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate
from analysis.stats.errors import estimated_value, noise_variance
from analysis.stats.seeds import Scores, iqm_difference, mean_difference

NUM_PERMUTATIONS = 10_000
MAX_ASSIGNMENTS = 200_000  # 10 seeds against 10 have 184,756
TIE = 1e-9  # how far rounding may move a sum of scores
MAX_SEEDS = 10_000
NUM_QUANTILES = 128  # of the variances' ratio


@dataclass(frozen=True)
class Comparison:
    """An effect with its interval, and the two-sided p-value of the t-test of no effect.

    `df` are the degrees of freedom of t, Satterthwaite's where variances are added up. Both are
    None where the data give no interval.
    """

    effect: Estimate
    df: float | None = None
    p_value: float | None = None


def welch(method_N: Scores, baseline_M: Scores, level: float = LEVEL) -> Comparison:
    """Difference of the means of independent seeds whose spreads may differ.

    t = (x̄ − ȳ)/√(s²ₓ/N + s²ᵧ/M) with Satterthwaite's degrees of freedom (Welch, 1947). One seed has
    no interval.

    (0.6, 0.7, 0.8) against (0.5, 0.5, 0.5): 0.2 ± 4.303 · 0.0577, two degrees of freedom.
    """
    return _t_test(ttest_ind, method_N, baseline_M, level, equal_var=False)


def paired(method_S: Scores, baseline_S: Scores, level: float = LEVEL) -> Comparison:
    """Mean of the differences seed by seed, which spread less where seeds are alike in both.

    t = d̄/(s_d/√S) with S − 1 degrees of freedom: about half of Welch's, so pairing without a
    correlation loses. Raises `ValueError` for other numbers of seeds.

    (0.6, 0.7, 0.8) against (0.5, 0.5, 0.8): differences 0.1, 0.2, 0: 0.1 ± 4.303 · 0.0577.
    """
    num_method, num_baseline = len(method_S), len(baseline_S)
    if num_method != num_baseline:
        raise ValueError(f"pairs must have as many seeds, got {num_method} and {num_baseline}")
    return _t_test(ttest_rel, method_S, baseline_S, level)


def permutation_p(method_N: Scores, baseline_M: Scores, *, is_paired: bool) -> float:
    """Two-sided p-value of the difference of means if the labels of the methods meant nothing.

    p is the share of the assignments of scores to methods (paired: of swaps within pairs) with an
    |effect| of at least the observed one. All of them up to `MAX_ASSIGNMENTS`, else 10,000 at
    random and the one at hand. Source: Pitman, 1937; Fisher, 1935.

    It is at least 2/C(2n, n) or, paired, 2/2ⁿ, and so below 0.05 from 4 and 6 seeds on. (3, 4, 5)
    against (0, 1, 2): 0.1, paired 0.25. (0.62, 0) against (0, 0, 0.07): 0.4.
    """
    x_N, y_M = np.asarray(method_N, dtype=float), np.asarray(baseline_M, dtype=float)
    scores_L = x_N - y_M if is_paired else np.concatenate([x_N, y_M])
    # An effect is linear in the sum of the scores that are kept, or that are called the method's.
    num_all = 2 ** len(x_N) if is_paired else comb(len(scores_L), len(x_N))
    is_exact = num_all <= MAX_ASSIGNMENTS
    if not is_exact:
        generator = np.random.default_rng(BOOTSTRAP_SEED)
        drawn_RL = np.tile(scores_L, (NUM_PERMUTATIONS, 1))
        if is_paired:
            sums_R = (drawn_RL * generator.integers(0, 2, drawn_RL.shape)).sum(axis=1)
        else:
            sums_R = generator.permuted(drawn_RL, axis=1)[:, : len(x_N)].sum(axis=1)
    elif is_paired:
        sums_R = np.array(list(product((0, 1), repeat=len(x_N)))) @ scores_L
    else:
        sums_R = scores_L[np.array(list(combinations(range(len(scores_L)), len(x_N))))].sum(axis=1)
    here = scores_L.sum() if is_paired else x_N.sum()
    middle = scores_L.sum() * (0.5 if is_paired else len(x_N) / len(scores_L))
    far = int(np.sum(np.abs(sums_R - middle) >= abs(here - middle) - TIE))
    return far / num_all if is_exact else (far + 1) / (NUM_PERMUTATIONS + 1)


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


def spread(method_SP: np.ndarray, baseline_SP: np.ndarray, num_samples: int) -> Spread:
    """`components` of two methods with the same seeds, from counts of right answers.

    noise² = mean Σ_p p̂(1 − p̂)/(m − 1)/P² over runs. On *these* problems, whose own differences are
    no noise. Raises `ValueError` for fewer than 2 seeds or answers a problem.
    """
    runs = np.array([method_SP, baseline_SP])
    if runs.shape[1] < 2:
        raise ValueError(f"seeds must be at least 2, got {runs.shape[1]}")
    noise = float(noise_variance(runs, num_samples).sum(axis=-1).mean()) / runs.shape[-1] ** 2
    scores_2S = estimated_value(runs, num_samples).mean(axis=-1)
    return components([dict(enumerate(scores_S)) for scores_S in scores_2S], noise).spread


def power(num_seeds: int, delta: float, components: Spread, level: float = LEVEL) -> float:
    """Chance that `welch` (`paired` if there is a correlation) finds a true effect `delta`.

    At n seeds of each method, of normal scores that spread alike, T is noncentral t with
    noncentrality δ/√(v/n). Paired: v = 2(seed²(1 − ρ) + noise²), n − 1 degrees of freedom.
    Independent: v = 2(seed² + noise²) and 2(n − 1). Welch's critical value then depends on
    u = s²ₓ/(s²ₓ + s²ᵧ) alone, by (n − 1)/(u² + (1 − u)²) degrees of freedom; u is Beta with
    (n − 1)/2 twice and independent of T, so that the mean over its quantiles is exact. Source:
    Cohen, 1988, chapter 2; Johnson, Kotz & Balakrishnan, 1995, chapter 31.

    2.5 standard deviations, 3 independent seeds: 0.527, where Student's t has 0.636. `ValueError`
    where nothing varies.
    """
    shared = 0.0 if components.correlation is None else components.correlation
    variance = 2 * (components.seed_sd**2 * (1 - shared) + components.noise_sd**2)
    if variance <= 0:
        raise ValueError("the difference of two seeds must vary, got a variance of 0")
    df, shift = num_seeds - 1, abs(delta) / (variance / num_seeds) ** 0.5
    critical_Q = np.array([t.ppf((1 + level) / 2, df)])
    if components.correlation is None:
        u_Q = beta.ppf((np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES, df / 2, df / 2)
        critical_Q, df = t.ppf((1 + level) / 2, df / (u_Q**2 + (1 - u_Q) ** 2)), 2 * df
    # The lower tail as the upper one of the other sign: scipy's cdf is NaN far from 0.
    return float(np.mean(nct.sf(critical_Q, df, shift) + nct.sf(critical_Q, df, -shift)))


def seeds_needed(
    delta: float, components: Spread, wanted: float = 0.8, level: float = LEVEL
) -> int:
    """The fewest seeds of each method at which `power` is at least `wanted`.

    One standard deviation at 80 %: 17 independent seeds; with pairs that correlate 0.9, 4. Raises
    `ValueError` where 10,000 are not enough, as for an effect of 0.
    """
    numbers = range(2, MAX_SEEDS + 1)
    place = bisect_left(numbers, wanted, key=lambda n: power(n, delta, components, level))
    if place == len(numbers):
        raise ValueError(f"an effect of {delta} needs more than {MAX_SEEDS} seeds")
    return numbers[place]


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
    "bootstrap of means": _of_scores(mean_difference),
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


def _t_test(
    test: Callable[..., Any], method: Scores, baseline: Scores, level: float, **options: Any
) -> Comparison:
    """By scipy's `test`; no interval of a single seed, nor where nothing varies."""
    value = float(np.mean(method) - np.mean(baseline))
    result = test(method, baseline, **options) if min(len(method), len(baseline)) > 1 else None
    if result is None or not np.isfinite(result.statistic):
        return Comparison(Estimate(value, None, None))
    low, high = map(float, result.confidence_interval(level))
    return Comparison(Estimate(value, low, high), float(result.df), float(result.pvalue))


def _residual_variance(table_SP: np.ndarray) -> tuple[float, int]:
    """σ²_e/SP by what rows and columns leave of the cells, and its degrees of freedom."""
    rows_S1, columns_P = table_SP.mean(axis=1, keepdims=True), table_SP.mean(axis=0)
    residuals_SP = table_SP - rows_S1 - columns_P + table_SP.mean()
    df = (table_SP.shape[0] - 1) * (table_SP.shape[1] - 1)
    return float((residuals_SP**2).sum() / df / table_SP.size), df


def _unit_uniform(generator: np.random.Generator, shape: Any) -> np.ndarray:
    return generator.uniform(-(3**0.5), 3**0.5, shape)  # of standard deviation 1
