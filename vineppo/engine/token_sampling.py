"""From logits to sampled tokens: temperature, nucleus, and one uniform number a token. Pure."""

from collections.abc import Sequence

import torch

from vineppo.seeds import derive_seed


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) that decides the token at `position` of the response of `seed`.

    Multiples of 2⁻⁵², so that u · total stays below total when it is rounded.
    """
    return (derive_seed(seed, position) >> 11) * 2.0**-52


def sample_tokens(
    logits_BV: torch.Tensor,
    temperatures_B: Sequence[float],
    top_ps_B: Sequence[float],
    uniforms_B: Sequence[float],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their log-probabilities after temperature and top_p (nats), each [B].

    The token is the first id whose cumulative probability exceeds u: a pure function of its row and
    of u, whatever else is in the batch. Temperature 0 takes the likeliest id, whose log-probability
    is that at temperature 1 without top_p, as vLLM gives it. Probabilities (0.5, 0.3, 0.2) with
    top_p 0.7 keep two ids at (0.625, 0.375), so that u = 0.63 gives id 1 and ln 0.375.
    """
    is_greedy_B = torch.tensor([t == 0 for t in temperatures_B], device=logits_BV.device)
    scales_B = [t or 1.0 for t in temperatures_B]
    masses_B = [p if t else 1.0 for t, p in zip(temperatures_B, top_ps_B, strict=True)]
    logprobs_BV = processed_logprobs(logits_BV, scales_B, masses_B)
    # Sums of 150,000 probabilities in float32 would move the bounds between ids by 1e-5.
    cumulative_BV = logprobs_BV.double().exp().cumsum(-1)
    uniforms_B1 = torch.tensor(uniforms_B, dtype=torch.float64, device=logits_BV.device)[:, None]
    drawn_B1 = torch.searchsorted(cumulative_BV, uniforms_B1 * cumulative_BV[:, -1:], right=True)
    tokens_B = torch.where(is_greedy_B, logits_BV.argmax(-1), drawn_B1.squeeze(-1))
    return tokens_B, logprobs_BV.gather(-1, tokens_B[:, None]).squeeze(-1)


def processed_logprobs(
    logits_BV: torch.Tensor, temperatures_B: Sequence[float], top_ps_B: Sequence[float]
) -> torch.Tensor:
    """log π of the tempered policy renormalised over its nucleus, −∞ outside, float32 [B, V].

    The nucleus is the smallest set of likeliest ids with a mass of at least top_p.
    """
    temperatures_B1 = torch.tensor(temperatures_B, device=logits_BV.device)[:, None]
    logprobs_BV = torch.log_softmax(logits_BV.float() / temperatures_B1, -1)
    cut = [b for b, top_p in enumerate(top_ps_B) if top_p < 1]
    if cut:
        masses_C1 = torch.tensor([top_ps_B[b] for b in cut], device=logits_BV.device)[:, None]
        logprobs_BV[cut] = _nucleus(logprobs_BV[cut], masses_C1)
    return logprobs_BV


def _nucleus(logprobs_CV: torch.Tensor, masses_C1: torch.Tensor) -> torch.Tensor:
    sorted_CV, order_CV = logprobs_CV.sort(dim=-1, descending=True, stable=True)
    probs_CV = sorted_CV.double().exp()
    likelier_CV = probs_CV.cumsum(-1) - probs_CV  # the mass of the ids before it; 0 for the first
    is_kept_CV = torch.zeros_like(logprobs_CV, dtype=torch.bool)
    is_kept_CV.scatter_(-1, order_CV, likelier_CV < masses_C1)
    kept_CV = logprobs_CV.masked_fill(~is_kept_CV, -torch.inf)
    return kept_CV - kept_CV.logsumexp(-1, keepdim=True)
