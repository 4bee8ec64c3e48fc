"""What a model says of every response token: log-probabilities, entropies, KL, value outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vineppo.config.schema import ModelConfig, ReferenceConfig
from vineppo.distributed import largest
from vineppo.errors import UserError
from vineppo.kl import full
from vineppo.models import LoadedModel, load_model
from vineppo.types import TrainBatch

# Positions × vocabulary of one chunk of the projection: 2^26 floats are 256 MiB.
CHUNK_LOGITS = 2**26


@dataclass(frozen=True)
class ForwardOptions:
    """What a pass of the policy is to compute besides log-probabilities.

    `reference`: the exact KL to it; `has_entropy_gradient`: entropies that can be trained;
    `is_backbone_frozen`: the value head sees hidden states without a gradient.
    """

    temperature: float
    reference: "Reference | None" = None
    has_entropy_gradient: bool = False
    is_backbone_frozen: bool = False


@dataclass(frozen=True)
class TokenScores:
    """What the policy says of every response token, each [B, T] and 0 elsewhere.

    `logprobs_BT` and `entropy_BT` (nats) are those of the tempered policy, `kl_BT` is the exact KL
    to the reference (nats; 0 without one), `value_outputs_BT` the value head's output for the state
    before the token, which knows no temperature (0 without a head).
    """

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor
    kl_BT: torch.Tensor
    value_outputs_BT: torch.Tensor


class TokenLogprobs(nn.Module):
    """log π(token t | tokens < t) and more at every response position of a batch.

    Only response positions pass the vocabulary projection, chunk by chunk; ids that are padding of
    the embedding matrix are outside the softmax, as they are for the engine.
    """

    def __init__(self, model: Any, num_token_ids: int, value_head: nn.Module | None = None) -> None:
        super().__init__()
        for key in ("logit_scale", "logits_scaling"):
            if getattr(model.config, key, None) not in (None, 1, 1.0):
                raise UserError(f"model {model.name_or_path}: {key} in its config is not supported")
        self.model = model
        self.value_head = value_head
        self.num_token_ids = num_token_ids
        self.softcap: float | None = getattr(model.config, "final_logit_softcapping", None)

    def forward(self, batch: TrainBatch, options: ForwardOptions) -> tuple[torch.Tensor, ...]:
        """The fields of `TokenScores`."""
        hidden_NH = hidden_before_tokens(self.model.base_model, batch)
        targets_N = batch.token_ids_BT[batch.response_mask_BT]
        reference = options.reference
        ref_hidden_NH = None if reference is None else reference.hidden(batch)
        scores_N = list(self._project(hidden_NH, targets_N, ref_hidden_NH, options))
        scores_N.append(self._values(hidden_NH, options))
        zeros_BT = torch.zeros(batch.token_ids_BT.shape, device=hidden_NH.device)
        return tuple(zeros_BT.masked_scatter(batch.response_mask_BT, x_N) for x_N in scores_N)

    def logits(self, hidden_NH: torch.Tensor, temperature: float) -> torch.Tensor:
        """[N, V] over the tokenizer's ids, in float32."""
        head: Callable[[torch.Tensor], torch.Tensor] = self.model.get_output_embeddings()
        logits_NV = head(hidden_NH)[:, : self.num_token_ids].float()
        if self.softcap is not None:
            logits_NV = self.softcap * torch.tanh(logits_NV / self.softcap)
        return logits_NV / temperature

    def _values(self, hidden_NH: torch.Tensor, options: ForwardOptions) -> torch.Tensor:
        if self.value_head is None:
            return torch.zeros(len(hidden_NH), device=hidden_NH.device)
        states_NH = hidden_NH.detach() if options.is_backbone_frozen else hidden_NH
        return self.value_head(states_NH).squeeze(-1).float()

    def _project(
        self,
        hidden_NH: torch.Tensor,
        targets_N: torch.Tensor,
        ref_hidden_NH: torch.Tensor | None,
        options: ForwardOptions,
    ) -> tuple[torch.Tensor, ...]:
        chunk = max(1, CHUNK_LOGITS // self.model.config.vocab_size)
        # A sharded head is gathered once a chunk, for which all ranks must meet equally often.
        num_positions = largest(len(hidden_NH), hidden_NH.device)
        if num_positions <= chunk:
            return self._chunk(hidden_NH, targets_N, ref_hidden_NH, options)
        pieces = range(0, num_positions, chunk)
        refs = (
            [None for _ in pieces]
            if ref_hidden_NH is None
            else [ref_hidden_NH[i : i + chunk] for i in pieces]
        )
        parts = [
            checkpoint(
                self._chunk, hidden_NH[i : i + chunk], targets_N[i : i + chunk], ref, options,
                use_reentrant=False,
            )
            for i, ref in zip(pieces, refs, strict=True)
        ]  # fmt: skip
        return tuple(torch.cat(columns) for columns in zip(*parts, strict=True))

    def _chunk(
        self,
        hidden_NH: torch.Tensor,
        targets_N: torch.Tensor,
        ref_hidden_NH: torch.Tensor | None,
        options: ForwardOptions,
    ) -> tuple[torch.Tensor, ...]:
        logits_NV = self.logits(hidden_NH, options.temperature)
        log_z_N = logits_NV.logsumexp(-1)
        logprobs_N = logits_NV.gather(-1, targets_N[:, None]).squeeze(-1) - log_z_N
        with torch.set_grad_enabled(torch.is_grad_enabled() and options.has_entropy_gradient):
            entropy_N = log_z_N - (torch.softmax(logits_NV, -1) * logits_NV).sum(-1)
        if options.reference is None or ref_hidden_NH is None:
            return logprobs_N, entropy_N, torch.zeros_like(log_z_N)
        ref_logprobs_NV = options.reference.log_softmax(ref_hidden_NH, options.temperature)
        return logprobs_N, entropy_N, full(logits_NV - log_z_N[:, None], ref_logprobs_NV)


class Reference:
    """The frozen reference policy; `path` null is the starting policy."""

    def __init__(self, config: ReferenceConfig, model: ModelConfig, policy: LoadedModel) -> None:
        loaded = load_model(config.path or model.path, model.dtype, model.attention)
        self._forward = TokenLogprobs(loaded.model, policy.engine_model.num_token_ids).eval()

    def to(self, device: torch.device) -> None:
        self._forward.to(device)

    @torch.no_grad()
    def logprobs(self, batch: TrainBatch, temperature: float) -> torch.Tensor:
        """log π_ref of every response token at the policy's temperature, [B, T]."""
        return self._forward(batch, ForwardOptions(temperature))[0]

    @torch.no_grad()
    def hidden(self, batch: TrainBatch) -> torch.Tensor:
        """[N, H], for `log_softmax`."""
        return hidden_before_tokens(self._forward.model.base_model, batch)

    @torch.no_grad()
    def log_softmax(self, hidden_NH: torch.Tensor, temperature: float) -> torch.Tensor:
        """log π_ref over the whole vocabulary, [N, V]."""
        return torch.log_softmax(self._forward.logits(hidden_NH, temperature), -1)


def hidden_before_tokens(backbone: Any, batch: TrainBatch) -> torch.Tensor:
    """The last hidden states of the states before the response's tokens, [N, H]."""
    hidden_BTH = backbone(
        input_ids=batch.token_ids_BT,
        attention_mask=batch.attention_mask_BT,
        use_cache=False,
    ).last_hidden_state
    # The state before token t predicts token t.
    return hidden_BTH[:, :-1][batch.response_mask_BT[:, 1:]]
