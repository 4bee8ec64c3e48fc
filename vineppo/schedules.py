"""What is a pure function of the run's progress: the learning rate, and the order of problems."""

import math
import random
from typing import Literal

from vineppo.seeds import derive_seed


def learning_rate(
    update: int,
    num_updates: int,
    peak: float,
    warmup_fraction: float,
    schedule: Literal["constant", "linear"],
) -> float:
    """The rate of update 0 … num_updates−1: linear warm-up to `peak`, then constant or linear to 0.

    Warm-up takes w = ceil(warmup_fraction · num_updates) updates, of which number u has
    peak · (u + 1)/w; "linear" then gives peak · (num_updates − u)/(num_updates − w). With 10
    updates, warm-up 0.2 and peak 1: 0.5, 1, 1, 0.875, … , 0.125 for "linear".
    """
    warmup = math.ceil(warmup_fraction * num_updates - 1e-9)  # 0.07 · 100 is 7.000000000000001
    if update < warmup:
        return peak * (update + 1) / warmup
    if schedule == "constant":
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
    stop = iteration * num_prompts
    taken: list[int] = []  # from the start of the current epoch's first unfinished piece
    offset = 0  # position in the endless sequence of taken[0]
    epoch = 0
    while offset + len(taken) < stop:
        order = list(range(num_problems))
        random.Random(derive_seed(run_seed, "problem order", epoch)).shuffle(order)
        split = (offset + len(taken)) % num_prompts
        open_piece = taken[len(taken) - split :] if split else []
        seen = set(open_piece)
        fresh = [i for i in order if i not in seen]
        need = (num_prompts - split) % num_prompts
        offset += len(taken) - len(open_piece)
        rest = [i for i in order if i not in set(fresh[:need])]
        taken = open_piece + fresh[:need] + rest
        epoch += 1
    start = stop - num_prompts - offset
    return taken[start : start + num_prompts]
