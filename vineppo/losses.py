"""Per-token losses. Reduction is the caller's, over the global batch of an update."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Surrogate:
    """Per-token terms of the clipped surrogate, all of the input's shape."""

    loss: torch.Tensor
    ratio: torch.Tensor
    is_clipped: torch.Tensor


def clipped_surrogate(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float,
    clip_high: float,
) -> Surrogate:
    """PPO's clipped surrogate, to be minimised (Schulman et al. 2017, eq. 7; two-sided clip).

    L = −min(r A, clip(r, 1 − clip_low, 1 + clip_high) A),  r = exp(log π − log π_old)

    All tensors share one shape. `is_clipped` marks where the clip took the gradient away. With
    A = 2, r = 1.5, clip 0.2: L = −min(3, 2.4) = −2.4, clipped; with A = −2: L = 3, not clipped.
    """
    ratio = torch.exp(logprobs - old_logprobs)
    unclipped = -advantages * ratio
    clipped = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return Surrogate(torch.maximum(unclipped, clipped), ratio, clipped > unclipped)


def whiten(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """(x − mean) / (std + 1e-8) with `weights` counting how often each value occurs; 1-D tensors.

    One call takes the whole global batch; the standard deviation is the population's. Values that
    are all equal become 0. `whiten([1, 3], [1, 1]) = [-1, 1]`.
    """
    total = weights.sum()
    mean = (weights * values).sum() / total
    std = ((weights * (values - mean).square()).sum() / total).sqrt()
    return (values - mean) / (std + 1e-8)
