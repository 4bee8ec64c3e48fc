"""Policy losses beside PPO's: GSPO, by the ratio of whole responses, and CISPO."""

import math

import torch

from vineppo.losses import Surrogate, clipped_surrogate, token_ratio


def sequence_surrogate(
    logprobs_BT: torch.Tensor,
    old_logprobs_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    clip_low: float,
    clip_high: float,
) -> Surrogate:
    """GSPO's clipped surrogate by the ratio of whole responses (arXiv:2507.18071, section 4).

    L_t = −min(s_t A_t, clip(s_t, 1 − clip_low, 1 + clip_high) A_t),  s_t = sg(s) · π_t / sg(π_t)
    s = exp(mean over the trained tokens of a response of log π − log π_old)

    This is GSPO-token (section 4.3): s_t is s with the gradient of token t alone. If a response has
    one advantage, the mean of L_t has value and gradient of GSPO's −min(s A, clip(s) A). Ratios 2
    and ½ with A = [1, −1]: s = 1, L = [−1, 1], nothing clipped. Ratios 2 and 2, clip 0.2: s = 2,
    L = [−1.2, 2], the first clipped. log s is kept within ±20, with no gradient outside. A token
    that both policies hold impossible has the ratio 1.
    """
    is_same_BT = logprobs_BT == old_logprobs_BT  # −inf − −inf is NaN
    log_ratio_BT = (logprobs_BT - old_logprobs_BT).detach().masked_fill(~mask_BT | is_same_BT, 0.0)
    # Impossible to one policy and to the other: large numbers have a sum, −inf + inf has none.
    log_ratio_BT = log_ratio_BT.nan_to_num(nan=math.nan)
    log_s_B1 = log_ratio_BT.sum(-1, keepdim=True) / mask_BT.sum(-1, keepdim=True).clamp(min=1)
    added_BT = logprobs_BT - logprobs_BT.detach()  # 0, and the gradient
    log_s_BT = log_s_B1 + added_BT.masked_fill(logprobs_BT.isneginf(), 0.0)
    zeros_BT = torch.zeros_like(log_s_BT)
    return clipped_surrogate(log_s_BT, zeros_BT, advantages_BT, clip_low, clip_high, None)


def weighted_likelihood(
    logprobs: torch.Tensor,
    old_logprobs: torch.Tensor,
    advantages: torch.Tensor,
    _mask: torch.Tensor,
    clip_low: float,
    clip_high: float,
) -> Surrogate:
    """CISPO: the log-likelihood by a clipped weight without gradient (arXiv:2506.13585, eq. 4, 5).

    L = −sg(clip(r, 1 − clip_low, 1 + clip_high)) A log π,  r = exp(log π − log π_old)

    A clipped token keeps the gradient −(1 + clip_high) A, or −(1 − clip_low) A, where PPO's has
    none: `is_clipped` marks where the weight is not r. The paper has no lower clip
    (`clip_low` 1). With log π = −1, A = 2, r = 1.5, clip 0.2: L = 1.2 · 2 · 1 = 2.4, clipped.
    """
    ratio = token_ratio(logprobs, old_logprobs).detach()
    weight = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return Surrogate(-weight * advantages * logprobs, ratio, weight != ratio)
