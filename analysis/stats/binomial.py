"""The value of a state from the counts of its returns, each 0 or 1, and intervals of it."""

import numpy as np
from scipy.stats import beta, norm

Counts = np.ndarray | int


def check_counts(num_correct: Counts, num_samples: Counts) -> tuple[np.ndarray, np.ndarray]:
    """Both as arrays of one shape. Raises `ValueError` for counts that cannot be."""
    correct, samples = np.broadcast_arrays(np.asarray(num_correct), np.asarray(num_samples))
    if np.any(samples < 1):
        raise ValueError(f"num_samples must be at least 1, got {samples.min()}")
    if np.any((correct < 0) | (correct > samples)):
        wrong = correct[(correct < 0) | (correct > samples)].flat[0]
        raise ValueError(f"num_correct must be in 0..num_samples, got {wrong}")
    return correct, samples


def estimated_value(num_correct: Counts, num_samples: Counts) -> np.ndarray:
    """p̂ = c/m: unbiased, no prior. 64 of 256 returns are 1: 0.25."""
    correct, samples = check_counts(num_correct, num_samples)
    return correct / samples


def noise_variance(num_correct: Counts, num_samples: Counts) -> np.ndarray:
    """Unbiased estimate of the variance of c/m as an estimate of p: p̂(1 − p̂)/(m − 1).

    E[c(m − c)] = m(m − 1)·p(1 − p), so that c(m − c)/(m²(m − 1)) has the expectation p(1 − p)/m.
    64 of 256: 0.25 · 0.75 / 255 = 0.000735. Raises `ValueError` for m = 1, which shows no variance.
    """
    return return_variance(num_correct, num_samples) / num_samples


def return_variance(num_correct: Counts, num_samples: Counts) -> np.ndarray:
    """Unbiased estimate of the variance p(1 − p) of one return: c(m − c)/(m(m − 1)).

    2 of 4 are 1: 4/12 = 1/3. Raises `ValueError` for m = 1.
    """
    correct, samples = check_counts(num_correct, num_samples)
    if np.any(samples < 2):
        raise ValueError("num_samples must be at least 2 for a variance, got 1")
    return correct * (samples - correct) / (samples * (samples - 1.0))


def wilson_interval(
    num_correct: Counts, num_samples: Counts, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval of p: all p that a normal test of level 1 − `level` does not reject.

    (p̂ + z²/2m ± z·√(p̂(1 − p̂)/m + z²/4m²)) / (1 + z²/m), z the normal quantile at (1 + level)/2.
    Source: Brown, Cai & DasGupta, 2001, section 3.1.1. Its coverage is `level` on average over p:
    for m = 256 at 95 % it is 93.8 to 96.3 % at p in [0.05, 0.95], and down to 84 % at p < 1/m.

    15 of 50 at 95 %: (0.1910, 0.4375).
    """
    correct, samples = check_counts(num_correct, num_samples)
    z = norm.ppf((1 + level) / 2)
    rate, spread = correct / samples, z**2 / samples
    half_width = np.sqrt(spread * (rate * (1 - rate) + spread / 4))
    low, high = rate + spread / 2 - half_width, rate + spread / 2 + half_width
    # At the ends the bounds are 0 and 1 but for rounding.
    low = np.where(correct == 0, 0.0, low / (1 + spread))
    return low, np.where(correct == samples, 1.0, high / (1 + spread))


def jeffreys_interval(
    num_correct: Counts, num_samples: Counts, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Jeffreys' interval of p: central quantiles of Beta(c + ½, m − c + ½).

    Its low end is 0 where c = 0 and its high end 1 where c = m. Source: Brown, Cai & DasGupta,
    2001, section 3.1.3. Coverage for m = 256 at 95 %: 93.1 to 96.2 % at p in [0.05, 0.95], and
    down to 88 % at p of a few returns in m.

    15 of 50 at 95 %: (0.1869, 0.4355).
    """
    correct, samples = check_counts(num_correct, num_samples)
    ends = correct + 0.5, samples - correct + 0.5
    low = np.where(correct == 0, 0.0, beta.ppf((1 - level) / 2, *ends))
    return low, np.where(correct == samples, 1.0, beta.ppf((1 + level) / 2, *ends))
