"""Per-token losses of policy and critic, KL(π ‖ π_ref), and their sum over an update. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from vineppo.config.schema import (
    ImportanceConfig,
    LossAggregation,
    OptimizationConfig,
    TruncatedImportance,
)
from vineppo.plugins import RECIPES, load_function

# exp overflows float32 above 88; a ratio of inf times a clip's gradient of 0 would be NaN.
MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class Surrogate:
    """Per-token terms of a policy loss, all of the input's shape; a clip acts at `is_clipped`."""

    loss: torch.Tensor
    ratio: torch.Tensor
    is_clipped: torch.Tensor


def policy_surrogate(
    config: OptimizationConfig,
    logprobs_BT: torch.Tensor,
    old_logprobs_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    mask_BT: torch.Tensor,
) -> Surrogate:
    """The loss that `optimization.policy_loss` names; `mask_BT` marks the trained tokens."""
    terms, clip = (logprobs_BT, old_logprobs_BT, advantages_BT), (config.clip_low, config.clip_high)
    if config.policy_loss == "ppo":
        return clipped_surrogate(*terms, *clip, config.dual_clip)
    found: Surrogate = load_function(*RECIPES.POLICY_LOSSES[config.policy_loss])(
        *terms, mask_BT, *clip
    )
    return found


def clipped_surrogate(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
) -> Surrogate:
    """PPO's clipped surrogate, to be minimised (Schulman et al. 2017, eq. 7; two-sided clip).

    L = −min(r A, clip(r, 1 − clip_low, 1 + clip_high) A),  r = exp(log π − log π_old)

    With `dual_clip` c, L is at most −c A where A < 0 (Ye et al. 2020, arXiv:1912.09729).
    All tensors share one shape. `is_clipped` marks where a clip took the gradient away. With
    A = 2, r = 1.5, clip 0.2: L = −min(3, 2.4) = −2.4, clipped; with A = −2: L = 3, not clipped,
    and at r = 4 with c = 3: L = min(8, 6) = 6, clipped. log r is kept within ±20, with no
    gradient outside.
    """
    ratio = token_ratio(logprobs, old_logprobs)
    unclipped = -advantages * ratio
    clipped = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss, is_clipped = torch.maximum(unclipped, clipped), clipped > unclipped
    if dual_clip is not None:
        bound = -dual_clip * advantages
        is_bounded = (advantages < 0) & (loss > bound)
        loss, is_clipped = torch.where(is_bounded, bound, loss), is_clipped | is_bounded
    return Surrogate(loss, ratio, is_clipped)


def token_ratio(logprobs: torch.Tensor, old_logprobs: torch.Tensor) -> torch.Tensor:
    """r = π/π_old, from e⁻²⁰ to e²⁰, with no gradient outside."""
    return torch.exp((logprobs - old_logprobs).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))


def importance_weights(
    config: ImportanceConfig | None,
    trainer_logprobs_T: Sequence[float],
    engine_logprobs_T: Sequence[float],
) -> list[float]:
    """w = π_trainer/π_engine of the sampled tokens, before the update: constants, no gradient.

    With level "sequence" the product of all tokens' on every one of them. "truncated": min(w,
    max_weight) (TIS, Yao et al. 2025). "masked": 0 outside [min_weight, max_weight] (IcePop, Ling
    team 2025). None: 1. With w = [0.5, 1, 4] and max_weight 2: truncated [0.5, 1, 2], masked from
    0.75 [0, 1, 0]; the sequence's is 0.5 · 1 · 4 = 2, three times.
    """
    if config is None:
        return [1.0] * len(engine_logprobs_T)
    logs_T = [t - e for t, e in zip(trainer_logprobs_T, engine_logprobs_T, strict=True)]
    if config.level == "sequence":
        logs_T = [math.fsum(logs_T)] * len(logs_T)
    ratios_T = [math.exp(min(log, 700.0)) for log in logs_T]  # it raises above 709
    if isinstance(config, TruncatedImportance):
        return [min(ratio, config.max_weight) for ratio in ratios_T]
    low, high = config.min_weight, config.max_weight
    return [ratio if low <= ratio <= high else 0.0 for ratio in ratios_T]


@dataclass(frozen=True)
class Totals:
    """The sizes of a whole update over all micro-batches and ranks; they divide the losses.

    `Totals(num_tokens=5, num_sequences=2, max_tokens=4)`: 5 trained tokens in 2 sequences (those
    without a trained token are not counted); responses may have 4 tokens.
    """

    num_tokens: int
    num_sequences: int
    max_tokens: int


def aggregate(
    loss_BT: torch.Tensor, mask_BT: torch.Tensor, kind: LossAggregation, totals: Totals
) -> torch.Tensor:
    """A micro-batch's summand of the update's loss; the summands of all add up to the loss.

    token_mean     Σ_{b,t} L / num_tokens
    sequence_mean  Σ_b (mean of L over the trained tokens of b) / num_sequences
    sequence_sum   Σ_{b,t} L / num_sequences
    fixed_length   Σ_{b,t} L / (num_sequences · max_tokens)   (Dr. GRPO, arXiv:2503.20783)

    `mask_BT` (bool) marks the trained tokens; what stands elsewhere, NaN included, has no influence
    on value or gradient. Rows [1, 2, 3] and [4, 5, –] with `Totals(5, 2, 4)`: 15/5 = 3,
    (2 + 4.5)/2 = 3.25, 15/2 = 7.5 and 15/8 = 1.875. Nothing trained gives 0.
    """
    sums_B = loss_BT.masked_fill(~mask_BT, 0.0).sum(-1)
    # A total of 0 divides nothing but zeros.
    num_tokens, num_sequences = max(totals.num_tokens, 1), max(totals.num_sequences, 1)
    match kind:
        case "token_mean":
            return sums_B.sum() / num_tokens
        case "sequence_mean":
            return (sums_B / mask_BT.sum(-1).clamp(min=1)).sum() / num_sequences
        case "sequence_sum":
            return sums_B.sum() / num_sequences
        case "fixed_length":
            return sums_B.sum() / (num_sequences * max(totals.max_tokens, 1))


def squared_error(
    values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, clip: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """½ max((V − R)², (clip(V, V_old − clip, V_old + clip) − R)²) per token, and `is_clipped`.

    The clipped value loss of PPO's reference implementation (Baselines), the larger error counting;
    `is_clipped` marks where the clip took the gradient away. None: ½ (V − R)². V_old = 0, V = 0.5,
    clip 0.2: with R = 1, ½ max(0.25, 0.64) = 0.32, clipped; with R = 0, ½ max(0.25, 0.04) = 0.125.
    """
    error = (values - returns).square()
    if clip is None:
        return 0.5 * error, torch.zeros_like(error, dtype=torch.bool)
    kept = torch.clamp(values, old_values - clip, old_values + clip)
    clipped = (kept - returns).square()
    return 0.5 * torch.maximum(error, clipped), clipped > error


def cross_entropy(
    logits: torch.Tensor, returns: torch.Tensor, low: float, high: float
) -> torch.Tensor:
    """−(y log σ(x) + (1 − y) log(1 − σ(x))) per token, y = (R − low)/(high − low).

    For values bounded as V = low + (high − low) σ(x); minimal at V = R. Returns must lie in
    [low, high]; y is kept in [0, 1] against rounding. x = 0 gives log 2 whatever R is.
    """
    targets = ((returns - low) / (high - low)).clamp(0.0, 1.0)
    return binary_cross_entropy_with_logits(logits, targets, reduction="none")


def whiten(values: torch.Tensor) -> torch.Tensor:
    """(x − mean) / (std + 1e-8) of a 1-D tensor, which holds the whole global batch.

    The standard deviation is the population's. Values that are all equal become 0.
    `whiten([1, 3]) = [-1, 1]`.
    """
    mean = values.mean()
    std = (values - mean).square().mean().sqrt()
    # The rounding of a large mean would pass for a deviation.
    return (values - mean) / (std + 1e-8) * (values != values[:1]).any()


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
