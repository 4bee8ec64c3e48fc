"""KL(π ‖ π_ref): estimators from sampled tokens, the exact value, and its control. Pure."""

import math
from collections.abc import Callable
from typing import Literal

import torch


def k1(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """Per-token log π − log π_ref: unbiased, may be negative (Schulman 2020, "Approximating KL").

    `k1(log 0.5, log 0.25) = log 2 = 0.693`.
    """
    return logprobs - ref_logprobs


def absolute(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """Per-token |log π − log π_ref|: biased upwards, never negative.

    `absolute(log 0.25, log 0.5) = log 2 = 0.693`.
    """
    return (logprobs - ref_logprobs).abs()


def k2(logprobs: torch.Tensor, ref_logprobs: torch.Tensor) -> torch.Tensor:
    """Per-token ½ (log π − log π_ref)²: biased, low variance.

    In expectation it has the gradient of the token's KL at the visited state, not the sequence's.
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
    "abs": absolute,
    "k2": k2,
    "k3": k3,
}


def full(logprobs_NV: torch.Tensor, ref_logprobs_NV: torch.Tensor) -> torch.Tensor:
    """Σ_v π(v) (log π(v) − log π_ref(v)) of every position [N], exact over the vocabulary.

    A token with π(v) = 0 adds 0, also where π_ref(v) = 0. π = [½, ½], π_ref = [¼, ¾]:
    ½ log 2 + ½ log ⅔ = 0.144.
    """
    # −inf − (−inf) is NaN; filled before the product, it is out of the gradient as well.
    log_ratio_NV = (logprobs_NV - ref_logprobs_NV).masked_fill(logprobs_NV.isneginf(), 0.0)
    return (logprobs_NV.exp() * log_ratio_NV).sum(-1)


def clamp(kl: torch.Tensor, bounds: tuple[float, float] | None) -> torch.Tensor:
    """Every token's estimate within `bounds`, without gradient outside; None changes nothing.

    `clamp([-0.5, 3, 12], (0, 10)) = [0, 3, 10]`.
    """
    return kl if bounds is None else kl.clamp(*bounds)


def with_k2_gradient(
    kl: torch.Tensor, logprobs: torch.Tensor, ref_logprobs: torch.Tensor
) -> torch.Tensor:
    """The value of `kl` with the gradient of k2, in expectation that of the visited states' KL.

    In a loss, k1's own gradient is ∇ log π, zero in expectation; k3 has the gradient of the reverse
    KL(π_ref ‖ π). The gradient is k2's also where `kl` was clamped. With `kl` = k1 of (log 0.5, log
    0.25): value 0.693, derivative by log π 0.693 instead of 1.
    """
    quadratic = k2(logprobs, ref_logprobs)
    # In this order the difference is exactly 0, and the value exactly that of `kl`.
    return kl.detach() + (quadratic - quadratic.detach())


def weighted(kl: torch.Tensor, ratio: torch.Tensor, gradient: Literal["own", "k2"]) -> torch.Tensor:
    """r · `kl` per token, r = π/π_old: under π_old it has the mean that `kl` has under π.

    The tokens of an iteration are π_old's, also in later epochs. "own": the gradient passes through
    r as well; that of r · k3 is r log(π/π_ref), in expectation the KL's own at the visited states
    (DeepSeek-V3.2, arXiv:2512.02556). "k2": r is a constant, and r times k2's gradient is the same.
    At π = ½, π_ref = π_old = ¼: r = 2, and r · k3 = 0.386 has the derivative 2 log 2 by log π.
    """
    return kl * (ratio if gradient == "own" else ratio.detach())


def adapted_coef(
    coef: float, kl: float, target: float, horizon: float, num_sequences: int
) -> float:
    """β · (1 + clip(KL/target − 1, −0.2, 0.2) · n/horizon)  (Ziegler et al. 2019, section 2.2).

    `kl` and `target` are nats a sequence, and `horizon` is in sequences. n = `num_sequences` counts
    those since the last call; arXiv:1909.08593 has K_β = n/horizon = 0.1 for every batch. β = 0.1,
    KL 6.6, target 6, n/horizon = 0.5: the error is 0.1, and β becomes 0.1 · 1.05 = 0.105. A KL of
    NaN says nothing: β stays.
    """
    if math.isnan(kl):
        return coef
    error = min(max(kl / target - 1.0, -0.2), 0.2)
    return coef * (1.0 + error * num_sequences / horizon)
