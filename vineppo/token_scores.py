"""What a model says of every response token: log-probabilities, entropies, KL, value outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vineppo.config.schema import ModelConfig, ReferenceConfig
from vineppo.distributed import largest
from vineppo.errors import UserError
from vineppo.lora import has_adapters, without_adapters
from vineppo.models import LoadedModel, can_pack, load_model
from vineppo.types import TrainBatch
from vineppo.vocabulary import Softmax, chunk_rows, token_statistics

MIN_PROJECTED = 128  # rows
# What the projection finds, the candidates only on request.
PROJECTED = "logprobs_BT", "entropy_BT", "kl_BT", "ref_logprobs_BT"
CANDIDATES = "candidate_ids_BTK", "candidate_logprobs_BTK"


@dataclass(frozen=True)
class ForwardOptions:
    """What a pass of the policy is to compute besides log-probabilities.

    `reference`: the exact KL to it, and its log-probabilities; `has_hidden`: the hidden states;
    `num_candidates`: so many of the likeliest tokens, in a pass without a gradient; `only_values`:
    nothing but the value head's outputs, from hidden states without a gradient.
    """

    temperature: float
    reference: "Reference | None" = None
    has_entropy: bool = False
    has_hidden: bool = False
    num_candidates: int = 0
    only_values: bool = False


@dataclass(frozen=True)
class TokenScores:
    """What the policy says of every response token, each [B, T] and 0 elsewhere.

    `logprobs_BT` and `entropy_BT` (nats; 0 unless asked for) are those of the tempered policy,
    `kl_BT` is the exact KL to the reference and `ref_logprobs_BT` its log-probabilities (nats; 0
    without one), `value_outputs_BT` the value head's output for the state before the token, which
    knows no temperature (0 without a head). `hidden_BTH` are the last layer's hidden states before
    the tokens, which have no gradient, `candidate_ids_BTK` the likeliest tokens, in falling order
    of their log-probabilities `candidate_logprobs_BTK` (None unless asked for).
    """

    logprobs_BT: torch.Tensor
    entropy_BT: torch.Tensor
    kl_BT: torch.Tensor
    ref_logprobs_BT: torch.Tensor
    value_outputs_BT: torch.Tensor
    hidden_BTH: torch.Tensor | None = None
    candidate_ids_BTK: torch.Tensor | None = None
    candidate_logprobs_BTK: torch.Tensor | None = None


class TokenLogprobs(nn.Module):
    """log π(token t | tokens < t) and more at every response position of a batch.

    Only response positions pass the vocabulary projection, each once; ids that are padding of the
    embedding matrix are outside the softmax, as they are for the engine. Where the model
    `is_sharded` over the ranks, all of them must pass equally often.
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
        if options.only_values:
            nothing_N = torch.zeros(len(hidden_NH), device=hidden_NH.device)
            found = [nothing_N] * len(PROJECTED)
        else:
            found = [*self._project(hidden_NH, batch, options)]
        scores_N = dict(zip((*PROJECTED, *CANDIDATES), found, strict=False))
        scores_N["value_outputs_BT"] = self._values(hidden_NH)
        if options.has_hidden or options.num_candidates:
            scores_N["hidden_BTH"] = hidden_NH.detach()
        return {name: spread(x_N, batch) for name, x_N in scores_N.items()}

    def logits(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        """[N, V] as the projection gives them, padded ids included."""
        head: Callable[[torch.Tensor], torch.Tensor] = self.model.get_output_embeddings()
        return head(hidden_NH)

    def _values(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        if self.value_head is None:
            return torch.zeros(len(hidden_NH), device=hidden_NH.device)
        return self.value_head(hidden_NH).squeeze(-1).float()

    def _project(
        self, hidden_NH: torch.Tensor, batch: TrainBatch, options: ForwardOptions
    ) -> tuple[torch.Tensor, ...]:
        targets_N = batch.token_ids_BT.flatten()[batch.response_index_N]
        softmax = Softmax(self.num_token_ids, self.softcap, options.temperature)
        reference = options.reference
        ref_hidden_NH = None if reference is None else reference.hidden(batch)
        chunk = chunk_rows(self.model.config.vocab_size, hidden_NH.device)

        def statistics(rows: slice) -> tuple[torch.Tensor, ...]:
            ref_logits_NV = (
                None
                if reference is None or ref_hidden_NH is None
                else reference.logits(ref_hidden_NH[rows])
            )
            logits_NV = self.logits(hidden_NH[rows])
            found_N = token_statistics(
                logits_NV, targets_N[rows], softmax, options.has_entropy, ref_logits_NV
            )
            if not options.num_candidates:
                return found_N
            num_candidates = min(options.num_candidates, self.num_token_ids)
            likeliest = [softmax.log(part).topk(num_candidates) for part in logits_NV.split(chunk)]
            values, indices = map(torch.cat, zip(*likeliest, strict=True))
            return *found_N, indices, values

        if torch.is_grad_enabled():
            return statistics(slice(None))
        # Without a gradient to come no logits need to stay. A sharded head is gathered once a
        # chunk, for which all ranks must meet equally often. Else they must not: the reference
        # passes when a rank's own rollouts are there, and as often as their lengths ask for.
        # What `token_statistics` keeps in a CPU's cache may be few rows, for which all weights of
        # the projection would be read.
        size = max(MIN_PROJECTED, chunk)
        most = len(hidden_NH)
        if self.is_sharded:
            most = largest(most, hidden_NH.device)
        parts = [statistics(slice(i, i + size)) for i in range(0, max(1, most), size)]
        return tuple(torch.cat(columns) for columns in zip(*parts, strict=True))


class Reference:
    """The frozen reference policy; `path` null is the starting policy.

    Where only adapters train, that is the policy's own model without them, and needs no memory.
    """

    def __init__(self, config: ReferenceConfig, model: ModelConfig, policy: LoadedModel) -> None:
        if config.path is None and has_adapters(policy.model):
            self._model = policy.model
        else:
            path = config.path or model.path
            self._model = load_model(path, model.dtype, model.attention).model.eval()
        self._forward = TokenLogprobs(self._model, policy.engine_model.num_token_ids)

    def to(self, device: torch.device) -> None:
        self._forward.to(device)

    @property
    def packs(self) -> bool:
        """Whether its passes may be packed."""
        return can_pack(self._model)

    @torch.no_grad()
    def logprobs(self, batch: TrainBatch, temperature: float) -> torch.Tensor:
        """log π_ref of every response token at the policy's temperature, [B, T]."""
        with without_adapters(self._model):
            return self._forward(batch, ForwardOptions(temperature))["logprobs_BT"]

    @torch.no_grad()
    def hidden(self, batch: TrainBatch) -> torch.Tensor:
        """[N, H], for `logits`."""
        with without_adapters(self._model):
            return hidden_before_tokens(self._model.base_model, batch)

    @torch.no_grad()
    def logits(self, hidden_NH: torch.Tensor) -> torch.Tensor:
        """[N, V], to be read through the policy's softmax."""
        return self._forward.logits(hidden_NH)


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
        attention_mask=None,
        past_key_values=NoCache() if has_attention_alone(backbone) else None,
        use_cache=False,
    ).last_hidden_state
    return hidden_BTH


def spread(x_N: torch.Tensor, batch: TrainBatch) -> torch.Tensor:
    """Numbers of the response tokens at their places in [B, T], 0 elsewhere; or rows of them."""
    shape, *more = batch.token_ids_BT.shape, *x_N.shape[1:]
    zeros_M = torch.zeros(shape.numel(), *more, dtype=x_N.dtype, device=x_N.device)
    return zeros_M.index_copy(0, batch.response_index_N, x_N).view(*shape, *more)
