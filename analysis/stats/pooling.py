"""One effect from the comparisons of two methods in several settings, every setting alike.

In the suffixes N and M are seeds of the two methods in a setting.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations, product
from math import comb, prod

import numpy as np
from scipy.stats import t

from analysis.stats.bootstrap import BOOTSTRAP_SEED, LEVEL, Estimate
from analysis.stats.comparison import NUM_PERMUTATIONS, Comparison
from analysis.stats.seeds import Scores

TIE = 1e-9  # how far rounding may move a sum of scores


def pooled(comparisons: Sequence[Comparison], level: float = LEVEL) -> Comparison:
    """The mean effect of K settings, on *these* settings, their intervals at `level` given.

    δ̄ = Σδ̂_k/K with V = ΣV_k/K² and, of Satterthwaite, V²/Σ((V_k/K²)²/df_k) degrees of freedom.
    Weights are equal: those by inverse variance are unbiased only for effects that all settings
    share, and are themselves noise where a variance comes from a handful of seeds. Source: Bonett,
    2009, Psychological Methods 14:225. No interval where a setting has none.

    0.1 ± 4.303 · 0.03 and 0.3 ± 4.303 · 0.03, each with two degrees of freedom: 0.2, four degrees
    of freedom and ± 2.776 · 0.0212.
    """
    value = float(np.mean([comparison.effect.value for comparison in comparisons]))
    parts = []
    for comparison in comparisons:
        if comparison.effect.low is None or comparison.effect.high is None or comparison.df is None:
            return Comparison(Estimate(value, None, None))
        error = (
            (comparison.effect.high - comparison.effect.low)
            / 2
            / t.ppf((1 + level) / 2, comparison.df)
        )
        parts.append((float(error / len(comparisons)) ** 2, comparison.df))
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / of_part for part, of_part in parts)
    error = variance**0.5
    low, high = t.interval(level, df, value, error)
    p_value = float(2 * t.sf(abs(value) / error, df))
    return Comparison(Estimate(value, float(low), float(high)), df, p_value)


def pooled_permutation_p(
    settings: Sequence[tuple[Scores, Scores]], *, is_paired: bool
) -> float | None:
    """Two-sided p-value of the mean effect, labels exchanged within every setting alone.

    The share of the assignments whose mean effect is at least as far from 0: of all of them, or of
    10,000 and the one at hand. Source: Pesarin & Salmaso, 2010, on strata. None without seeds.

    (3, 4, 5) against (0, 1, 2) in two settings: 2 of the 400 assignments, 0.005.
    """
    if not all(len(scores) for pair in settings for scores in pair):
        return None
    pairs = [(np.asarray(x, dtype=float), np.asarray(y, dtype=float)) for x, y in settings]
    here = sum(x_N.mean() - y_M.mean() for x_N, y_M in pairs)
    counts = [
        2 ** len(x_N) if is_paired else comb(len(x_N) + len(y_M), len(x_N)) for x_N, y_M in pairs
    ]
    is_exact = prod(counts) <= NUM_PERMUTATIONS
    if is_exact:
        every = [np.array(list(_assignments(*pair, is_paired))) for pair in pairs]
        sums_R = reduce(lambda a, b: np.add.outer(a, b).ravel(), every)
    else:
        generator = np.random.default_rng(BOOTSTRAP_SEED)
        sums_R = np.sum([_drawn(*pair, is_paired, generator) for pair in pairs], axis=0)
    far = int(np.sum(np.abs(sums_R) >= abs(here) - TIE))
    return far / len(sums_R) if is_exact else (far + 1) / (len(sums_R) + 1)


def _assignments(x_N: np.ndarray, y_M: np.ndarray, is_paired: bool) -> Iterator[float]:
    """The effect of one setting under every assignment of its scores to the methods."""
    if is_paired:
        for signs in product((1, -1), repeat=len(x_N)):
            yield float(np.mean(np.array(signs) * (x_N - y_M)))
        return
    scores = np.concatenate([x_N, y_M])
    for chosen in combinations(range(len(scores)), len(x_N)):
        part = scores[list(chosen)].sum()
        yield float(part / len(x_N) - (scores.sum() - part) / len(y_M))


def _drawn(
    x_N: np.ndarray, y_M: np.ndarray, is_paired: bool, generator: np.random.Generator
) -> np.ndarray:
    """The same under `NUM_PERMUTATIONS` random assignments, [R]."""
    if is_paired:
        signs_RN = generator.choice((1.0, -1.0), (NUM_PERMUTATIONS, len(x_N)))
        return (signs_RN * (x_N - y_M)).mean(axis=1)
    scores_RL = np.tile(np.concatenate([x_N, y_M]), (NUM_PERMUTATIONS, 1))
    scores_RL = generator.permuted(scores_RL, axis=1)
    return scores_RL[:, : len(x_N)].mean(axis=1) - scores_RL[:, len(x_N) :].mean(axis=1)
