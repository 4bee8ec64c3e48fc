"""One uniform number makes one token, for a whole batch on its device."""

import math
from itertools import repeat

import numpy as np
import torch
from torch.nn.functional import pad

from vineppo.vocabulary import chunk_rows

MOST_LIKELY = 512  # ids that are sorted, if they have the nucleus of every row of a chunk


def uniforms(seed: int, count: int) -> np.ndarray:
    """The numbers in [0, 1) that decide the first `count` tokens of the response of `seed`.

    Multiples of 2⁻⁵², so that u · total stays below total when it is rounded.
    """
    stream = np.random.Generator(np.random.Philox(key=seed))
    return stream.integers(1 << 52, size=count) * 2.0**-52


def sample_tokens(
    logits_BV: torch.Tensor,
    temperatures_B: torch.Tensor,
    top_ps_B: torch.Tensor | None,
    is_greedy_B: torch.Tensor | None,
    uniforms_B: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their log-probabilities after temperature and top_p (nats), each [B].

    The token is the first id whose cumulative probability exceeds u: up to rounding a function of
    its row and of u, whatever else is in the batch; of a greedy row the likeliest. Probabilities
    (0.5, 0.3, 0.2) with top_p 0.7 keep two ids at (0.625, 0.375), so that u = 0.63 gives id 1 and
    ln 0.375. Without `top_ps_B` all are 1, without `is_greedy_B` no row is greedy.
    """
    rows = chunk_rows(logits_BV.shape[1], logits_BV.device)
    if len(logits_BV) > rows:
        batch = logits_BV, temperatures_B, top_ps_B, is_greedy_B, uniforms_B
        chunks = [repeat(None) if part is None else part.split(rows) for part in batch]
        tokens, logprobs = zip(*map(sample_tokens, *chunks), strict=True)
        return torch.cat(tokens), torch.cat(logprobs)
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B[:, None], -1)
    if top_ps_B is None:
        tokens_B = _drawn(logprobs_BV, uniforms_B)
        found_B = _at(logprobs_BV, tokens_B)
    else:
        if is_greedy_B is not None:  # what it draws is not looked at
            top_ps_B = top_ps_B.masked_fill(is_greedy_B, 0.0)
        kept_BK, ids_BK = nuclei(logprobs_BV, top_ps_B)
        index_B = _drawn(kept_BK, uniforms_B)
        tokens_B, found_B = _at(ids_BK, index_B), _at(kept_BK, index_B)
    if is_greedy_B is not None:
        likeliest_B = logits_BV.argmax(-1)
        tokens_B = torch.where(is_greedy_B, likeliest_B, tokens_B)
        found_B = torch.where(is_greedy_B, _at(logprobs_BV, likeliest_B), found_B)
    return tokens_B, found_B


def _at(x_BN: torch.Tensor, index_B: torch.Tensor) -> torch.Tensor:
    return x_BN.gather(-1, index_B[:, None]).squeeze(-1)


def _drawn(logprobs_BV: torch.Tensor, uniforms_B: torch.Tensor) -> torch.Tensor:
    """The first ids whose cumulative probability exceeds u, [B].

    Of √V pieces the one that u falls into, then its id: one sum over 150,000 probabilities would
    move the bounds between ids by 1e-5 in float32, and take a third of a CPU's step in float64.
    """
    num_ids = logprobs_BV.shape[1]
    size = math.isqrt(num_ids - 1) + 1
    probs_BV = logprobs_BV.exp()
    whole = num_ids - num_ids % size
    sums_BP = probs_BV[:, :whole].unflatten(1, (-1, size)).sum(-1)
    rest_B1 = probs_BV[:, whole:].sum(-1, keepdim=True)
    piece_B1, share_B1 = _found(torch.cat([sums_BP, rest_B1], dim=-1), uniforms_B[:, None])
    ids_BI = piece_B1 * size + torch.arange(size, device=piece_B1.device)
    probs_BI = probs_BV.gather(1, ids_BI.clamp(max=num_ids - 1))
    index_B1, _ = _found(probs_BI.masked_fill_(ids_BI >= num_ids, 0.0), share_B1)
    # Of logits that are NaN or +∞ every sum is NaN: the last id, whose log-probability says so.
    return ids_BI.gather(1, index_B1).squeeze(1).clamp(max=num_ids - 1)


def _found(weights_BN: torch.Tensor, share_B1: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The index at `share` of the weights' sum, and at which share of its own weight, [B, 1]."""
    weights_BN = weights_BN.double()
    sums_BN = weights_BN.cumsum(-1)
    target_B1 = share_B1 * sums_BN[:, -1:]
    index_B1 = torch.searchsorted(sums_BN, target_B1, right=True)
    index_B1 = index_B1.clamp(max=weights_BN.shape[1] - 1)
    weight_B1 = weights_BN.take_along_dim(index_B1, 1)
    before_B1 = sums_BN.take_along_dim(index_B1, 1) - weight_B1
    inside_B1 = (target_B1 - before_B1) / weight_B1
    return index_B1, inside_B1.clamp(0.0, 1 - 2.0**-52)


def nuclei(logprobs_BV: torch.Tensor, top_ps_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """log π renormalised over each row's nucleus, −∞ outside, of the ids beside it, ascending.

    Both [B, K]. The nucleus is the smallest set of likeliest ids with a mass of at least top_p, of
    equal ones at its edge the lower; of 1, all. K is V where the likeliest ids of a row are not
    enough alone, and on a GPU, whose queue would run empty at that question.
    """
    top_ps_B1 = top_ps_B[:, None]
    held_BK, ids_BK = logprobs_BV, torch.arange(logprobs_BV.shape[1], device=logprobs_BV.device)
    if not logprobs_BV.is_cuda and len(ids_BK) > MOST_LIKELY:
        likely_BK, of_likely_BK = logprobs_BV.topk(MOST_LIKELY, sorted=False)
        # Ids as likely as the last of them may be missing.
        is_last_BK = likely_BK == likely_BK.amin(-1, keepdim=True)
        mass_B1 = likely_BK.double().exp().masked_fill(is_last_BK, 0.0).sum(-1, keepdim=True)
        if bool(((mass_B1 >= top_ps_B1) & (top_ps_B1 < 1)).all()):
            ids_BK, order_BK = of_likely_BK.sort(-1)
            held_BK = likely_BK.gather(-1, order_BK)
    falling_BK, order_BK = held_BK.sort(stable=True, dim=-1, descending=True)
    # The mass of the likelier ids; −1 for the first, which is kept also where top_p is 0.
    before_BK = pad(falling_BK.double().exp().cumsum(-1)[:, :-1], (1, 0), value=-1.0)
    is_kept_BK = (before_BK < top_ps_B1) | (top_ps_B1 >= 1)
    kept_BK = held_BK.scatter(-1, order_BK, falling_BK.masked_fill(~is_kept_BK, -torch.inf))
    return kept_BK - kept_BK.logsumexp(-1, keepdim=True), ids_BK.expand_as(kept_BK)
