"""Pure functions of a run's seed and progress: random streams, problems' order, learning rates.

No generator is carried along, so streams depend on no order of requests, ranks or interruptions.
"""

import hashlib
import math
import random
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vineppo.config.schema import AdamConfig


def derive_seed(run_seed: int, *counter: int | str) -> int:
    """63-bit seed of the stream named by (run seed, iteration, phase, problem id, sample index, …).

    seed = BLAKE2b(canonical encoding of run_seed and counter) mod 2^63. The encoding is injective:
    `(1, "2")` and `("1", 2)` give different seeds, and so do `("ab",)` and `("a", "b")`.

    >>> derive_seed(1, 2, "rollouts", "gsm8k/train/7", 0)
    1093962790885644208
    """
    encoded = "".join(
        f"{type(part).__name__}{len(str(part))}:{part}" for part in (run_seed, *counter)
    )
    digest = hashlib.blake2b(encoded.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def prefix_digest(token_ids: Sequence[int]) -> str:
    """The name of a prefix in seeds and keys: 128 bits in hexadecimal."""
    return hashlib.blake2b(array("q", token_ids).tobytes(), digest_size=16).hexdigest()


def rate_of(adam: "AdamConfig", update: int, num_updates: int) -> float:
    """The learning rate of update 0 … num_updates−1: linear warm-up, then constant or linear to 0.

    Warm-up takes w = ceil(warmup_fraction · num_updates) updates; number u has peak · (u + 1)/w.
    "linear" then gives peak · (num_updates − u)/(num_updates − w). With 10 updates, warm-up 0.2 and
    peak 1: 0.5, 1, 1, 0.875, … , 0.125 for "linear".
    """
    peak = adam.learning_rate
    warmup = math.ceil(adam.warmup_fraction * num_updates - 1e-9)  # 0.07 · 100 is 7.000000000000001
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
    assert num_prompts <= num_problems, "a problem may not come twice"
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
    """An iteration's problems, then all others in the order they may be drawn."""
    left = sorted(set(range(num_problems)) - set(chosen))
    random.Random(derive_seed(seed, "redraws", iteration)).shuffle(left)
    return [*chosen, *left]
