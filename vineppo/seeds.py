"""Counter-based random streams: a seed is a pure function of what it is for.

No generator is carried along, so the streams do not depend on the order in which requests finish,
on the number of ranks, or on whether a run was interrupted.
"""

import hashlib
from array import array
from collections.abc import Sequence


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
    """The name of a prefix in a seed and in a key: 128 bits in hexadecimal."""
    return hashlib.blake2b(array("q", token_ids).tobytes(), digest_size=16).hexdigest()
