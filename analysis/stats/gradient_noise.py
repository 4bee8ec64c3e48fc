"""The noise of a policy gradient: how far its mean over independent units scatters.

A unit is what was drawn independently: a problem, with the mean gradient of all its rollouts, which
share a prompt and often a baseline. G_ij = ⟨g_i, g_j⟩ is the Gram matrix of the units' gradients.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class GradientNoise:
    """tr Σ of one unit's gradient and |E g|², both unbiased, from `num_units` n.

    Chance makes the squared norm negative where noise outweighs it.
    """

    trace: float
    squared_norm: float
    num_units: float

    @property
    def trace_of_mean(self) -> float:
        """tr Σ/n, of the mean of the units."""
        return self.trace / self.num_units

    @property
    def signal_to_noise(self) -> float:
        """|E g|²/(tr Σ/n), NaN without noise."""
        return self.squared_norm / self.trace_of_mean if self.trace_of_mean > 0 else math.nan

    @property
    def noise_scale(self) -> float:
        """tr Σ/|E g|², the units at which both are equal; NaN of a squared norm not positive."""
        return self.trace / self.squared_norm if self.squared_norm > 0 else math.nan


def noise_from_gram(gram_NN: np.ndarray, weights_N: np.ndarray) -> GradientNoise:
    """From the Gram matrix, a unit counting `weights_N[n]` times: 1, or its count in a resample.

    Source: McCandlish et al., 2018 (arXiv:1812.06162), section 2.2 and appendix A.1 (the simple
    noise scale, there from two batch sizes).

    tr Σ is half the mean of |g_i − g_j|² = G_ii + G_jj − 2 G_ij, and |E g|² the mean of G_ij, over
    the pairs of different units with weights w_i·w_j. A unit is never paired with its own copy: a
    resample would otherwise take its noise for signal, and its interval would be about
    |E g|² + tr Σ/n. Made for `bootstrap.bootstrap_weights` with the units as clusters; for two
    estimators on the same rollouts compute both, and their ratio, in one call.

    All is NaN in a resample of one unit alone. Raises `ValueError` of fewer than two units.

    The Gram matrix ((1, 1), (1, 5)) of (1, 0) and (1, 2): tr Σ = (1 + 5 − 2)/2 = 2, |E g|² = 1.
    """
    if len(gram_NN) < 2:
        raise ValueError(f"units must be at least 2, got {len(gram_NN)}")
    weights_N = np.asarray(weights_N, dtype=float)
    total = float(weights_N.sum())
    if np.count_nonzero(weights_N) < 2:
        return GradientNoise(math.nan, math.nan, total)
    own_N = np.diag(gram_NN)
    between = weights_N @ gram_NN @ weights_N - weights_N**2 @ own_N
    pairs = total**2 - weights_N @ weights_N
    trace = ((weights_N * (total - weights_N)) @ own_N - between) / pairs
    return GradientNoise(float(trace), float(between / pairs), total)
