"""Per response token: log-probabilities, entropies, KL and value outputs of a model."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vineppo.config.schema import ModelConfig, ReferenceConfig
from vineppo.distributed import largest
from vineppo.errors import UserError
from vineppo.models import LoadedModel, can_pack, load_model
from vineppo.types import TrainBatch
from vineppo.vocabulary import Softmax, chunk_rows, token_statistics

MIN_PROJECTED = 128  # rows
# What `token_statistics` finds, in its order.
PROJECTED = "logprobs_BT", "entropy_BT", "kl_BT", "ref_logprobs_BT"


@dataclass(frozen=True)
class ForwardOptions:
    """Numbers that a pass of the policy computes besides log-probabilities."""

    temperature: float
    reference: "Reference | None" = None  # the exact KL to it, and its log-probabilities
    has_entropy: bool = False
    has_hidden: bool = False
    num_candidates: int = 0  # of the likeliest tokens, in a pass without a gradient
    only_values: bool = False  # of the value head, from hidden states without a gradient


@dataclass(frozen=True)
class TokenScores:
    """The policy's scores of response tokens, each [B, T], 0 elsewhere (nats)."""

    logprobs_BT: torch.Tensor  # of the tempered policy, like the entropy
    entropy_BT: torch.Tensor  # 0 unless asked for
    kl_BT: torch.Tensor  # the exact one to the reference; 0 without one
    ref_logprobs_BT: torch.Tensor
    value_outputs_BT: torch.Tensor  # of the state before the token, without a temperature
    hidden_BTH: torch.Tensor | None = None  # the last layer's before the tokens, without gradient
    candidate_ids_BTK: torch.Tensor | None = None  # the likeliest tokens, in falling order
    candidate_logprobs_BTK: torch.Tensor | None = None


class TokenLogprobs(nn.Module):
    """log π(token t | tokens < t) and more at every response position of a batch.

    Only response positions pass the vocabulary projection, each once; ids that are padding of the
    embedding matrix are outside the softmax, as for the engine. If the model `is_sharded` over the
    ranks, all of them must pass equally often.
    """

    def __init__(
        self,
        model: Any,
        num_token_ids: int,
        value_head: nn.Module | None = None,
        is_sharded: bool = False,
    ) -> None:
        super().__init__()
        for key in ("logit_scale", "logits_scaling"):
            if getattr(model.config, key, None) not in (None, 1, 1.0):
                raise UserError(f"model {model.name_or_path}: {key} in its config is not supported")
        self.model = model
        self.value_head = value_head
        self.num_token_ids = num_token_ids
        self.is_sharded = is_sharded
        self.softcap: float | None = getattr(model.config, "final_logit_softcapping", None)

    def forward(self, batch: TrainBatch, options: ForwardOptions) -> dict[str, torch.Tensor]:
        """The fields of `TokenScores`: DeepSpeed's hooks know no dataclass."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not options.only_values):
            hidden_NH = hidden_before_tokens(self.model.base_model, batch)
        zeros_N = torch.zeros(len(hidden_NH), device=hidden_NH.device)
        scores_N = dict.fromkeys((*PROJECTED, "value_outputs_BT"), zeros_N)
        if not options.only_values:
            scores_N |= self._project(hidden_NH, batch, options)
        if self.value_head is not None:
            scores_N["value_outputs_BT"] = self.value_head(hidden_NH).squeeze(-1).float()
        if options.has_hidden or options.num_candidates:
            scores_N["hidden_BTH"] = hidden_NH.detach()
        return {name: spread(x_N, batch) for name, x_N in scores_N.items()}

    def logits(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        """[N, V] as the projection gives them, padded ids included."""
        head: Callable[[torch.Tensor], torch.Tensor] = self.model.get_output_embeddings()
        return head(hidden_NH)

    def _project(
        self, hidden_NH: torch.Tensor, batch: TrainBatch, options: ForwardOptions
    ) -> dict[str, torch.Tensor]:
        targets_N = batch.token_ids_BT.flatten()[batch.response_index_N]
        softmax = Softmax(self.num_token_ids, self.softcap, options.temperature)
        ref_logits = None if options.reference is None else options.reference.logits(batch)
        chunk = chunk_rows(self.model.config.vocab_size, hidden_NH.device)

        def statistics(rows: slice) -> dict[str, torch.Tensor]:
            ref_logits_NV = None if ref_logits is None else ref_logits(rows)
            logits_NV = self.logits(hidden_NH[rows])
            found_N = token_statistics(
                logits_NV, targets_N[rows], softmax, options.has_entropy, ref_logits_NV
            )
            scores_N = dict(zip(PROJECTED, found_N, strict=True))
            if options.num_candidates:
                num_candidates = min(options.num_candidates, self.num_token_ids)
                likeliest = [softmax.log(x).topk(num_candidates) for x in logits_NV.split(chunk)]
                logprobs, ids = map(torch.cat, zip(*likeliest, strict=True))
                scores_N |= {"candidate_ids_BTK": ids, "candidate_logprobs_BTK": logprobs}
            return scores_N

        if torch.is_grad_enabled():
            return statistics(slice(None))
        # Without a gradient to come no logits need to stay. A sharded head is gathered once a
        # chunk, for which all ranks must meet equally often. Otherwise they must not: the reference
        # passes when a rank's own rollouts are there. `MIN_PROJECTED`: for the few rows that fit in
        # a CPU's cache, all weights of the projection would be read.
        size = max(MIN_PROJECTED, chunk)
        most = len(hidden_NH)
        if self.is_sharded:
            most = largest(most, hidden_NH.device)
        parts = [statistics(slice(i, i + size)) for i in range(0, max(1, most), size)]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


class Reference:
    """The frozen reference policy; `path` null is the starting policy.

    If only adapters train, that is the policy's own model without them, and needs no memory.
    """

    def __init__(self, config: ReferenceConfig, model: ModelConfig, policy: LoadedModel) -> None:
        self._adapters = policy.adapters if config.path is None else None
        if self._adapters is not None:
            self._model = policy.model
        else:
            path = config.path or model.path
            self._model = load_model(path, model.dtype, model.attention).model.eval()
        self._forward = TokenLogprobs(self._model, policy.engine_model.num_token_ids)

    def to(self, device: torch.device) -> None:
        self._forward.to(device)

    @property
    def packs(self) -> bool:
        """True if its passes may be packed."""
        return can_pack(self._model)

    @torch.no_grad()
    def logprobs(self, batch: TrainBatch, temperature: float) -> torch.Tensor:
        """log π_ref of every response token at the policy's temperature, [B, T]."""
        with self._bare():
            return self._forward(batch, ForwardOptions(temperature))["logprobs_BT"]

    def _bare(self) -> AbstractContextManager[None]:
        return nullcontext() if self._adapters is None else self._adapters.without(self._model)

    @torch.no_grad()
    def logits(self, batch: TrainBatch) -> Callable[[slice], torch.Tensor]:
        """Gives [N, V] of some rows at a time, to be read through the policy's softmax."""
        with self._bare():
            hidden_NH = hidden_before_tokens(self._model.base_model, batch)
        return torch.no_grad()(lambda rows: self._forward.logits(hidden_NH[rows]))


def hidden_before_tokens(backbone: Any, batch: TrainBatch) -> torch.Tensor:
    """The last hidden states of the states before the response's tokens, [N, H]."""
    from vineppo.packing import packed_hidden  # transformers takes seconds

    if batch.packed is not None and can_pack(backbone):
        hidden_MH = packed_hidden(backbone, batch.packed)
        return hidden_MH.index_select(0, batch.packed.state_index_N)
    hidden_BTH = last_hidden(backbone, batch.token_ids_BT)
    # The state before token t predicts token t; a boolean mask would make a GPU wait for its count.
    return hidden_BTH.flatten(0, 1).index_select(0, batch.response_index_N - 1)


def last_hidden(backbone: Any, token_ids_BT: torch.Tensor) -> torch.Tensor:
    """The last hidden states of sequences padded on the right, [B, T, H]."""
    from vineppo.packing import NoCache, has_attention_alone  # transformers takes seconds

    hidden_BTH: torch.Tensor = backbone(
        input_ids=token_ids_BT,
        # No mask: the padding stands on the right, where no token looks. With a mask, transformers
        # would ask the device before every pass whether there is any padding.
        past_key_values=NoCache() if has_attention_alone(backbone) else None,
        use_cache=False,
    ).last_hidden_state
    return hidden_BTH


def spread(x_N: torch.Tensor, batch: TrainBatch) -> torch.Tensor:
    """Numbers of the response tokens at their places in [B, T], 0 elsewhere; or rows of them."""
    shape, *more = batch.token_ids_BT.shape, *x_N.shape[1:]
    zeros_M = torch.zeros(shape.numel(), *more, dtype=x_N.dtype, device=x_N.device)
    return zeros_M.index_copy(0, batch.response_index_N, x_N).view(*shape, *more)
