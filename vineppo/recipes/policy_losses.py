"""Policy losses beside PPO's, GSPO and CISPO, and PF-PPO's choice of the rollouts that train."""

import math
import random
from collections import Counter
from collections.abc import Sequence

import torch

from vineppo.config.schema import TrainConfig
from vineppo.losses import Surrogate, clipped_surrogate, token_ratio
from vineppo.types import Rollout, by_problem, derive_seed


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


def resampled(rollouts: Sequence[Rollout], config: TrainConfig, iteration: int) -> list[Rollout]:
    """PF-PPO's rollouts of the policy's epochs, by `filter_weights`.

    It draws as many of each problem as there are, with replacement, so the number of updates stays.
    Advantages stay those of the whole group.
    """
    drawn: list[Rollout] = []
    for rollouts_G in by_problem(rollouts):
        weights_G = filter_weights([rollout.reward for rollout in rollouts_G])
        name = iteration, "resampling", rollouts_G[0].problem.id
        stream = random.Random(derive_seed(config.seed, *name))
        drawn += stream.choices(rollouts_G, weights_G, k=len(rollouts_G))
    return drawn


def filter_weights(rewards_G: Sequence[float]) -> list[float]:
    """PF-PPO's probabilities of drawing a problem's rollouts again, by reward (arXiv:2409.06957).

    Half the best and half the worst, the paper's BW; of one reward all alike. Rewards [9, 5, 5, 1]:
    [½, 0, 0, ½].
    """
    best, worst = max(rewards_G), min(rewards_G)
    if best == worst:
        return [1.0 / len(rewards_G)] * len(rewards_G)
    num_best, num_worst = Counter(rewards_G)[best], Counter(rewards_G)[worst]
    return [0.5 * (r == best) / num_best + 0.5 * (r == worst) / num_worst for r in rewards_G]
