"""Estimators of KL(π ‖ π_ref) from the log-probabilities of sampled tokens."""

from collections.abc import Callable

import torch


def k1(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """Per-token log π − log π_ref: unbiased, may be negative (Schulman 2020, "Approximating KL").

    `k1(log 0.5, log 0.25) = log 2 = 0.693`.
    """
    return logprobs - ref_logprobs


def k2(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """Per-token ½ (log π − log π_ref)²: biased, low variance, its gradient is that of the KL.

    `k2(log 0.5, log 0.25) = ½ (log 2)² = 0.240`.
    """
    return 0.5 * (logprobs - ref_logprobs).square()


def k3(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """Per-token r − 1 − log r with r = π_ref/π: unbiased and never negative (Schulman 2020).

    `k3(log 0.5, log 0.25) = 0.5 − 1 + log 2 = 0.193`. log r is capped at 20 (r = 5e8): beyond 88
    its exponential overflows float32, and 0 · inf would make the gradient NaN where it is clamped.
    """
    log_ratio = (ref_logprobs - logprobs).clamp(max=20.0)
    return torch.expm1(log_ratio) - log_ratio


KL_ESTIMATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "k1": k1,
    "k2": k2,
    "k3": k3,
}
