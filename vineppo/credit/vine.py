"""VinePPO's advantage: the difference of two Monte-Carlo values (arXiv:2410.01679, section 4)."""

from collections.abc import Sequence


def vine_advantages(values_S: Sequence[float], reward: float) -> list[float]:
    """A_i = V̂(s_{i+1}) − V̂(s_i) for the S steps, with V̂(s_S) = `reward` exactly.

    `values_S[i]` is the Monte-Carlo value of the state before step i. The paper's γ = 1 is built
    in: a discount would have to enter the continuations' returns as well. The advantages sum to
    reward − values_S[0]. Values [0.5, 0.25] and reward 1 → [−0.25, 0.75].
    """
    after_S = [*values_S[1:], reward]
    return [after - before for before, after in zip(values_S, after_S, strict=True)]
