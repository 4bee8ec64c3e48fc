"""Statistics of logits, a chunk of rows at a time, with a hand-written gradient.

Autograd would keep several float32 copies of [N, V] logits, or project the hidden states twice.
Here the logits are kept once, as the projection gave them, and become their own gradient.
"""

from dataclasses import dataclass
from typing import Any

import torch

from vineppo.kl import full

# Rows × vocabulary of a chunk of float32 numbers: a CPU's caches hold it, it keeps a GPU busy.
CHUNK_LOGITS = {"cpu": 2**20, "cuda": 2**26}

# Stands for log 0 where p log p is taken: its exponential is 0, and 0 times it is 0, not NaN.
LOG_0 = -1e4


@dataclass(frozen=True)
class Softmax:
    """How logits become a distribution: ids below `num_token_ids`, softcapped, at a temperature.

    z = cap · tanh(x / cap) / temperature, or x / temperature where `softcap` is None.
    """

    num_token_ids: int
    softcap: float | None
    temperature: float

    def log(self, logits_NV: torch.Tensor) -> torch.Tensor:
        """log softmax(z), [N, num_token_ids], float32."""
        z_NV = logits_NV[:, : self.num_token_ids].float()
        if self.softcap is not None:
            z_NV = self.softcap * torch.tanh(z_NV / self.softcap)
        return torch.log_softmax(z_NV / self.temperature, -1)

    def pull_back(self, gradient_NV: torch.Tensor, logits_NV: torch.Tensor) -> torch.Tensor:
        """The gradient with respect to the logits from the one with respect to z."""
        gradient_NV = gradient_NV / self.temperature
        if self.softcap is None:
            return gradient_NV
        x_NV = logits_NV[:, : self.num_token_ids].float()
        return gradient_NV * (1 - torch.tanh(x_NV / self.softcap).square())


def token_statistics(
    logits_NV: torch.Tensor,
    targets_N: torch.Tensor,
    softmax: Softmax,
    has_entropy: bool,
    ref_logits_NV: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """log p(target), H(p), KL(p ‖ q) and log q(target) of every row, each [N], in nats.

    p is the softmax of `logits_NV` and q that of `ref_logits_NV`; without those KL and log q are 0,
    and H is 0 unless `has_entropy`. The first three have gradients with respect to `logits_NV`.
    `backward` overwrites the logits' memory: nothing else may read them. With p = (1/2, 1/4, 1/4)
    and target 1: log p = −1.386, H = 1.040. A logit of −inf is a token of probability 0: it adds
    nothing, and its gradient is 0.

        ∂ log p(y)/∂z = 1[y] − p,   ∂H/∂z = −p (log p + H),   ∂KL/∂z = p (log p − log q − KL)
    """
    return _TokenStatistics.apply(logits_NV, targets_N, softmax, has_entropy, ref_logits_NV)


class _TokenStatistics(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        logits_NV: torch.Tensor,
        targets_N: torch.Tensor,
        softmax: Softmax,
        has_entropy: bool,
        ref_logits_NV: torch.Tensor | None,
    ) -> tuple[torch.Tensor, ...]:
        found_4N = torch.zeros(4, len(logits_NV), device=logits_NV.device)
        for rows in _chunks(logits_NV):
            targets_C1 = targets_N[rows, None]
            log_p_CV = softmax.log(logits_NV[rows])
            found_4N[0, rows] = log_p_CV.gather(-1, targets_C1).squeeze(-1)
            if has_entropy:
                found_4N[1, rows] = -(log_p_CV.exp() * log_p_CV.clamp(min=LOG_0)).sum(-1)
            if ref_logits_NV is not None:
                log_q_CV = softmax.log(ref_logits_NV[rows])
                found_4N[2, rows] = full(log_p_CV, log_q_CV)
                found_4N[3, rows] = log_q_CV.gather(-1, targets_C1).squeeze(-1)
        logprobs_N, entropy_N, kl_N, ref_logprobs_N = found_4N
        # Not by save_for_backward, which forbids to overwrite: backward writes into the logits.
        ctx.saved = (logits_NV, targets_N, softmax, ref_logits_NV, entropy_N, kl_N)
        ctx.mark_non_differentiable(ref_logprobs_N)
        ctx.set_materialize_grads(False)  # None for what the loss does not use
        return logprobs_N, entropy_N, kl_N, ref_logprobs_N

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        logits_NV, targets_N, softmax, ref_logits_NV, entropy_N, kl_N = ctx.saved
        ctx.saved = None
        for_logprobs_N, for_entropy_N, for_kl_N, _ = gradients
        for rows in _chunks(logits_NV):
            log_p_CV = softmax.log(logits_NV[rows]).clamp_(min=LOG_0)
            weights_CV = torch.zeros_like(entropy_N[rows, None])
            if for_logprobs_N is not None:
                weights_CV = weights_CV - for_logprobs_N[rows, None]
            if for_entropy_N is not None:
                surprise_CV = log_p_CV + entropy_N[rows, None]
                weights_CV = weights_CV - for_entropy_N[rows, None] * surprise_CV
            if for_kl_N is not None and ref_logits_NV is not None:
                log_q_CV = softmax.log(ref_logits_NV[rows]).clamp_(min=LOG_0)
                excess_CV = log_p_CV - log_q_CV - kl_N[rows, None].clamp(max=-LOG_0)
                weights_CV = weights_CV + for_kl_N[rows, None] * excess_CV
            gradient_CV = log_p_CV.exp_().mul_(weights_CV)
            if for_logprobs_N is not None:
                gradient_CV.scatter_add_(-1, targets_N[rows, None], for_logprobs_N[rows, None])
            gradient_CV = softmax.pull_back(gradient_CV, logits_NV[rows])
            logits_NV[rows, : softmax.num_token_ids] = gradient_CV.to(logits_NV.dtype)
            logits_NV[rows, softmax.num_token_ids :] = 0
        return logits_NV, None, None, None, None


def chunk_rows(vocabulary: int, device: torch.device) -> int:
    return max(1, CHUNK_LOGITS[device.type] // vocabulary)


def _chunks(logits_NV: torch.Tensor) -> list[slice]:
    size = chunk_rows(logits_NV.shape[1], logits_NV.device)
    return [slice(i, i + size) for i in range(0, len(logits_NV), size)]
