"""Pure functions of the run's progress: the learning rate, and the order of problems."""

import math
import random
from collections.abc import Sequence

from vineppo.config.schema import AdamConfig
from vineppo.seeds import derive_seed


def learning_rate(adam: AdamConfig, update: int, num_updates: int) -> float:
    """The rate of update 0 … num_updates−1: linear warm-up to the peak, then constant or to 0.

    Warm-up takes w = ceil(warmup_fraction · num_updates) updates, of which number u has
    peak · (u + 1)/w; "linear" then gives peak · (num_updates − u)/(num_updates − w). With 10
    updates, warm-up 0.2 and peak 1: 0.5, 1, 1, 0.875, … , 0.125 for "linear".
    """
    peak = adam.learning_rate
    warmup = math.ceil(adam.warmup_fraction * num_updates - 1e-9)  # 0.07 · 100 is 7.00000000000001
    if update < warmup:
        return peak * (update + 1) / warmup
    if adam.schedule == "constant":
        return peak
    return peak * (num_updates - update) / (num_updates - warmup)


def problems_of_iteration(
    num_problems: int, num_prompts: int, iteration: int, run_seed: int
) -> list[int]:
    """Indices of the problems of an iteration (from 1), all different.

    The iterations cut an endless sequence of seeded permutations into pieces of `num_prompts`.
    Every problem comes once an epoch; where a piece spans two epochs, the second permutation is
    rearranged stably so that the piece holds no problem twice.
    """
    if num_prompts > num_problems:
        raise ValueError(f"num_prompts must be at most {num_problems}, got {num_prompts}")
    order: list[int] = []  # the sequence's start: whole epochs
    epoch = 0
    while len(order) < iteration * num_prompts:
        permutation = list(range(num_problems))
        random.Random(derive_seed(run_seed, "problem order", epoch)).shuffle(permutation)
        num_open = len(order) % num_prompts  # of the piece that the epoch before has begun
        begun = set(order[len(order) - num_open :])
        fresh = [i for i in permutation if i not in begun][: -num_open % num_prompts]
        taken = set(fresh)
        order += fresh + [i for i in permutation if i not in taken]
        epoch += 1
    return order[(iteration - 1) * num_prompts : iteration * num_prompts]


def with_redraws(chosen: Sequence[int], num_problems: int, iteration: int, seed: int) -> list[int]:
    """An iteration's problems, and behind them all others in the order of their redraws."""
    left = sorted(set(range(num_problems)) - set(chosen))
    random.Random(derive_seed(seed, "redraws", iteration)).shuffle(left)
    return [*chosen, *left]
