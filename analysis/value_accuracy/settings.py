"""How the numbers of a cell are made."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Settings:
    """`threshold` is that of `accuracy`, `level` that of all intervals.

    `num_resamples` resamples of problems make an interval, `num_refits` where every resample is
    ranked or fitted anew: Spearman's correlation over all states, the scores, the bands.
    """

    threshold: float
    level: float
    num_resamples: int
    num_refits: int
    seed: int

    @property
    def generator(self) -> np.random.Generator:
        """Always new, so that all predictors see the same resamples of the same problems."""
        return np.random.default_rng(self.seed)
