"""Statistics that are functions of sums over states.

`terms` are what each state adds, by name; `sums` the same names with their totals, of shape () or,
for R resamples at once, (R,).
"""

from collections.abc import Callable, Mapping

import numpy as np

Terms = Mapping[str, np.ndarray]  # [N] each
Sums = Mapping[str, np.ndarray]  # () or [R] each
SumStatistic = Callable[[Sums], np.ndarray]

# Sums of squared deviations of at most this share of the sum of squares are rounding.
NEGLIGIBLE = 1e-12


def total(terms: Terms) -> dict[str, np.ndarray]:
    """The sums over all states, each once: `mae(total(terms))` is the value without an interval."""
    return {name: np.asarray(of_N).sum() for name, of_N in terms.items()}


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Quotient, NaN where the denominator is not positive: there is nothing to divide by."""
    safe = np.where(denominator > 0, denominator, 1.0)
    return np.where(denominator > 0, numerator / safe, np.nan)


def variance(sums: Sums, name: str, squared_name: str) -> np.ndarray:
    """Sample variance with N − 1 of the term `name` from its squares and the term "one".

    (Σx² − (Σx)²/N)/(N − 1): of 1, 2, 3 it is 1. Exactly 0 where all are equal but for rounding, NaN
    of fewer than two states. Give terms that are nearly centred: their digits cancel.
    """
    num, squares = sums["one"], sums[squared_name]
    deviations = squares - ratio(sums[name] ** 2, num)
    return ratio(np.where(deviations > NEGLIGIBLE * squares, deviations, 0.0), num - 1)


def mean_terms(values_N: np.ndarray) -> dict[str, np.ndarray]:
    """The terms of `mean` over those of `values_N` that are defined; NaN is left out."""
    is_defined_N = ~np.isnan(values_N)
    return {"one": is_defined_N.astype(float), "value": np.where(is_defined_N, values_N, 0.0)}


def mean(sums: Sums) -> np.ndarray:
    """Mean of what `mean_terms` took: 2 of (1, 3, NaN)."""
    return ratio(sums["value"], sums["one"])
