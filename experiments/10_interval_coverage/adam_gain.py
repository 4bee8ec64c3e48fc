"""How often the intervals of what Adam gains, and of ratios of traces, hold the truth: writes
adam_gain.csv and trace_ratio.csv beside this file.

    python experiments/10_interval_coverage/adam_gain.py

2,000 coordinates, of which 200 bear signal, with |E g|² = tr Σ/50 of a problem by exact values.
The first estimator adds independent noise and has no gradient on a share of the problems.
"""

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.stats.bootstrap import bootstrap_weights
from analysis.stats.gradient_noise import adam_gains, gain_estimates, noise_from_gram

NUM_COORDINATES, NUM_SIGNALS, NUM_DIRECTIONS = 2000, 200, 300
NOISE_TO_SIGNAL = 50
# Problems that are measured, and those of an update.
SIZES = ((16, 4), (32, 4), (64, 4), (64, 16))
NUM_RUNS = 500
# What the first estimator's noise adds to that of exact values, and the problems it has none of.
FIRSTS = {"far": (1.7, 0.3), "near": (0.1, 0.0)}
# Of the logarithm of a factor that a problem's gradients share: at 1 few carry most of the trace.
SPREADS = (0.0, 0.5, 1.0)
NUM_RESAMPLES = 500


class World:
    """Gradients whose moments are known; `noises` are [K, C], or [C] of independent coordinates."""

    def __init__(self, is_independent: bool, added: float, share_zero: float, batch: int) -> None:
        draw = np.random.default_rng(0)
        self.mean_C = draw.normal(size=NUM_COORDINATES) * (np.arange(NUM_COORDINATES) < NUM_SIGNALS)
        trace = NOISE_TO_SIGNAL * self.mean_C @ self.mean_C
        size_C = np.exp(0.7 * draw.normal(size=NUM_COORDINATES))
        self.noises = []
        for size in (trace, added * trace):
            noise = size_C
            if not is_independent:
                falling_K1 = np.arange(1, NUM_DIRECTIONS + 1)[:, None] ** -0.5
                noise = size_C * falling_K1 * draw.normal(size=(NUM_DIRECTIONS, NUM_COORDINATES))
            self.noises.append(noise * np.sqrt(size / (noise**2).sum()))
        self.share, self.batch = 1 - share_zero, batch
        exact_C, added_C = (np.atleast_2d(noise**2).sum(0) for noise in self.noises)
        square_C = self.mean_C**2
        first_C = (square_C + exact_C + added_C) / self.share - square_C
        first, exact = (
            (square_C / np.sqrt(square_C + variance_C / batch)).sum()
            for variance_C in (first_C, exact_C)
        )
        self.truth = {"gain": first, "ratio": exact / first}
        self.squares = (square_C + first_C).sum(), (square_C + exact_C).sum()

    def draw(self, num_problems: int, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
        """The gradients of the same problems by the first estimator and by exact values."""
        exact_NC, added_NC = (
            generator.normal(size=(num_problems, noise.shape[-1])) * noise
            if noise.ndim == 1
            else generator.normal(size=(num_problems, len(noise))) @ noise
            for noise in self.noises
        )
        exact_NC = exact_NC + self.mean_C
        is_there_N1 = generator.random((num_problems, 1)) < self.share
        return is_there_N1 * (exact_NC + added_NC) / self.share, exact_NC


def coverage(world: World, num_problems: int) -> list[dict]:
    """Of the gain of all problems and of leave-one-out gains alone, as older tables have them."""
    generator = np.random.default_rng((0, num_problems))
    found: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for _ in range(NUM_RUNS):
        rows_ENC = world.draw(num_problems, generator)
        gains_EM = np.stack([adam_gains(rows_NC, rows_ENC[1], world.batch) for rows_NC in rows_ENC])
        older_EM = np.where(np.arange(1 + num_problems) == 0, np.nan, gains_EM)
        for name, table_EM in (("corrected", gains_EM), ("leave-one-out alone", older_EM)):
            (gain, _), (_, ratio) = gain_estimates(table_EM)
            for quantity, estimate in (("gain", gain), ("ratio", ratio)):
                truth = world.truth[quantity]
                holds = estimate.low is not None and estimate.low <= truth <= estimate.high
                found.setdefault((name, quantity), []).append((holds, estimate.value / truth - 1))
    return [
        {
            "interval": name,
            "quantity": quantity,
            "coverage": np.mean([holds for holds, _ in runs]),
            "median_bias": np.nanmedian([error for _, error in runs]),
        }
        for (name, quantity), runs in found.items()
    ]


def trace_coverage(world: World, num_problems: int, spread: float) -> dict:
    """Coverage of the bootstrap over problems, for tr Σ over the first estimator's."""
    generator = np.random.default_rng((1, num_problems))
    signal = world.mean_C @ world.mean_C
    factor = np.exp(spread**2)  # E s² of log-normal s with mean 1
    first, exact = (factor * square - signal for square in world.squares)

    def statistic(grams: list[np.ndarray], weights_N: np.ndarray) -> dict[str, float]:
        traces = [noise_from_gram(gram_NN, weights_N).trace for gram_NN in grams]
        return {"ratio": traces[1] / traces[0]}

    holds = []
    for _ in range(NUM_RUNS):
        scale_N1 = np.exp(spread * generator.normal(size=(num_problems, 1)) - spread**2 / 2)
        rows_ENC = [scale_N1 * rows_NC for rows_NC in world.draw(num_problems, generator)]
        grams = [rows_NC @ rows_NC.T for rows_NC in rows_ENC]
        estimate = bootstrap_weights(
            partial(statistic, grams), np.arange(num_problems), generator,
            num_resamples=NUM_RESAMPLES, level=0.95,
        )["ratio"]  # fmt: skip
        holds.append(estimate.low <= exact / first <= estimate.high)
    return {"num_problems": num_problems, "spread": spread, "coverage": np.mean(holds)}


if __name__ == "__main__":
    rows, traces = [], []
    for is_independent, (first, settings) in product((False, True), FIRSTS.items()):
        of = {"noise": "of each coordinate" if is_independent else "shared", "first": first}
        for n, batch in SIZES:
            world = World(is_independent, *settings, batch)
            rows += [of | {"num_problems": n, "batch": batch} | row for row in coverage(world, n)]
        traces += [of | trace_coverage(world, 64, spread) for spread in SPREADS]
    for name, table in (("adam_gain", rows), ("trace_ratio", traces)):
        path = Path(__file__).with_name(f"{name}.csv")
        pd.DataFrame(table).to_csv(path, index=False, float_format="%.4f")
        print(pd.DataFrame(table).to_string(index=False))
