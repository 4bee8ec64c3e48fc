"""Gradients made small: a linear map that keeps their inner products."""

from collections.abc import Iterable

import numpy as np
import torch

CHUNK = 2**13  # columns whose double copies are held at once


class CountSketch:
    """S: R^D → R^d with E⟨Sx, Sy⟩ = ⟨x, y⟩; `size` 0 keeps every coordinate.

    (Sx)_b = Σ_{j: h(j) = b} σ(j)·x_j with a random place h(j) and sign σ(j) for every coordinate,
    the same for all gradients. One inner product has the standard deviation
    √((|x|²|y|² + ⟨x, y⟩² − 2 Σ x_j² y_j²)/d): of a squared norm at most √(2/d), 0.6 % of it at
    d = 65,536. Being linear, the sketch of a mean is the mean of sketches: traces are that exact,
    and |E g|² up to 0.6 % of the noise tr Σ/n beside it. Source: Charikar et al., 2002; Weinberger
    et al., 2009 (arXiv:0902.2206), appendix A.
    """

    def __init__(self, num_weights: int, size: int, seed: int, device: torch.device) -> None:
        self.size = size or num_weights
        self._places_D: torch.Tensor | None = None
        if size:
            generator = torch.Generator().manual_seed(seed)
            # A place of the upper half is that of the lower half with the other sign.
            shape = (num_weights,)
            places_D = torch.randint(2 * size, shape, generator=generator, dtype=torch.int32)
            self._places_D = places_D.to(device)

    def __call__(self, gradients: Iterable[torch.Tensor]) -> torch.Tensor:
        """[d] of the gradients of a model's weights, in their order."""
        flat_D = torch.cat([gradient.flatten() for gradient in gradients])
        if self._places_D is None:
            return flat_D
        signed = flat_D.new_zeros(2 * self.size).index_add_(0, self._places_D, flat_D)
        return signed[: self.size] - signed[self.size :]


def inner_products(a_ND: np.ndarray, b_ND: np.ndarray) -> np.ndarray:
    """⟨a_i, b_j⟩, [N, N], summed in double precision.

    Of the rows (1, 0) and (1, 2) with themselves: ((1, 1), (1, 5)).
    """
    products_NN = np.zeros((len(a_ND), len(b_ND)))
    for start in range(0, a_ND.shape[1], CHUNK):
        part = slice(start, start + CHUNK)
        products_NN += a_ND[:, part].astype(np.float64) @ b_ND[:, part].astype(np.float64).T
    return products_NN
