"""HF models: where their files are, their tokenizer, and the log-probabilities of tokens."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from vineppo.config.schema import ModelConfig, ReferenceConfig
from vineppo.engine.interface import EngineModel
from vineppo.errors import UserError
from vineppo.types import TrainBatch

EMBEDDED = "embedded:"
ASSETS = Path(__file__).parent / "assets"
WEIGHT_SUFFIXES = (".safetensors", ".bin")
# Positions × vocabulary of one chunk of the projection: 2^26 floats are 256 MiB.
CHUNK_LOGITS = 2**26


@dataclass(frozen=True)
class LoadedModel:
    """A causal LM, its tokenizer, and what an engine needs to know of them."""

    model: Any
    tokenizer: Any
    engine_model: EngineModel


def resolve_model_path(path: str) -> str:
    """A directory for `embedded:NAME` and for a path, the name itself for a hub model.

    Raises `UserError` for an unknown embedded name and for a directory without a config or weights.
    """
    if path.startswith(EMBEDDED):
        directory = ASSETS / path.removeprefix(EMBEDDED)
        if not directory.is_dir():
            names = ", ".join(sorted(EMBEDDED + p.name for p in ASSETS.glob("*/")))
            raise UserError(f"model.path must be one of {names}, got {path}")
        return str(directory)
    if os.path.isdir(path):
        files = os.listdir(path)
        if "config.json" not in files:
            raise UserError(f"model directory without config.json: {path}")
        if not any(name.endswith(WEIGHT_SUFFIXES) for name in files):
            raise UserError(f"model directory without weights (*.safetensors, *.bin): {path}")
        return path
    if os.path.exists(path) or path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise UserError(f"model directory not found: {path}")
    return path


def load_model(path: str, dtype: str, attention: str) -> LoadedModel:
    """The policy at `path` (see `resolve_model_path`), on the CPU, with dropout off."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    resolved = resolve_model_path(path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(resolved)
        model, report = AutoModelForCausalLM.from_pretrained(
            resolved,
            dtype=getattr(torch, dtype),
            attn_implementation=attention,
            output_loading_info=True,
        )
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"model {path} cannot be loaded: {reason}") from None
    if report["missing_keys"]:
        raise UserError(
            f"model {path} lacks the weights {', '.join(sorted(report['missing_keys']))}"
        )
    disable_dropout(model)
    engine_model = EngineModel(
        resolved,
        num_token_ids=max(tokenizer.get_vocab().values()) + 1,
        stop_ids=find_stop_ids(model, tokenizer),
    )
    check_token_ids(path, engine_model, model.config.vocab_size)
    return LoadedModel(model, tokenizer, engine_model)


def check_token_ids(path: str, model: EngineModel, num_rows: int) -> None:
    """Raises `UserError` where tokenizer, embedding and end-of-sequence ids do not fit together."""
    if model.num_token_ids > num_rows:
        raise UserError(
            f"model {path}: the tokenizer has {model.num_token_ids} ids, which must be at most the "
            f"{num_rows} rows of the embedding"
        )
    for stop_id in model.stop_ids:
        if stop_id >= model.num_token_ids:
            raise UserError(
                f"model {path}: the end-of-sequence id {stop_id} must be one of the tokenizer's "
                f"{model.num_token_ids}"
            )


def find_stop_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The ids that end a response: the tokenizer's and the generation config's, in that order."""
    generation = model.generation_config.eos_token_id if model.generation_config else None
    extra = generation if isinstance(generation, list) else [generation]
    found = dict.fromkeys(i for i in [tokenizer.eos_token_id, *extra] if i is not None)
    if not found:
        raise UserError(f"model {model.name_or_path} has no end-of-sequence token")
    return tuple(found)


def named_weights(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """HF names and tensors, a tied matrix under each of its names.

    vLLM keeps a repacked copy of a tied output projection on the CPU, which only its own name
    renews.
    """
    return model.named_parameters(remove_duplicate=False)


def disable_dropout(model: nn.Module) -> None:
    """The behaviour policy has no dropout, so neither must the one that is updated."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "attention_dropout", None), float):
            setattr(module, "attention_dropout", 0.0)  # noqa: B010 (an nn.Module takes any attribute)


class TokenLogprobs(nn.Module):
    """log π(token t | tokens < t) and the entropy at every response position of a batch.

    Only response positions pass the vocabulary projection, chunk by chunk; ids that are padding of
    the embedding matrix are outside the softmax, as they are for the engine.
    """

    def __init__(self, model: Any, num_token_ids: int) -> None:
        super().__init__()
        for key in ("logit_scale", "logits_scaling"):
            if getattr(model.config, key, None) not in (None, 1, 1.0):
                raise UserError(f"model {model.name_or_path}: {key} in its config is not supported")
        self.model = model
        self.num_token_ids = num_token_ids
        self.softcap: float | None = getattr(model.config, "final_logit_softcapping", None)

    def forward(self, batch: TrainBatch, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities with gradient, entropies without (nats), both [B, T], 0 elsewhere."""
        hidden_BTH = self.model.base_model(
            input_ids=batch.token_ids_BT,
            attention_mask=batch.attention_mask_BT,
            use_cache=False,
        ).last_hidden_state
        # The state before token t predicts token t.
        mask_BT = batch.response_mask_BT[:, 1:]
        hidden_NH = hidden_BTH[:, :-1][mask_BT]
        targets_N = batch.token_ids_BT[:, 1:][mask_BT]
        logprobs_N, entropy_N = self._project(hidden_NH, targets_N, temperature)
        zeros_BT = torch.zeros(batch.token_ids_BT.shape, device=hidden_NH.device)
        return (
            zeros_BT.masked_scatter(batch.response_mask_BT, logprobs_N),
            zeros_BT.masked_scatter(batch.response_mask_BT, entropy_N),
        )

    def _project(
        self, hidden_NH: torch.Tensor, targets_N: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = max(1, CHUNK_LOGITS // self.model.config.vocab_size)
        if len(hidden_NH) <= chunk:
            return self._chunk(hidden_NH, targets_N, temperature)
        parts = [
            checkpoint(self._chunk, hidden, targets, temperature, use_reentrant=False)
            for hidden, targets in zip(hidden_NH.split(chunk), targets_N.split(chunk), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _chunk(
        self, hidden_NH: torch.Tensor, targets_N: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        head: Callable[[torch.Tensor], torch.Tensor] = self.model.get_output_embeddings()
        logits_NV = head(hidden_NH)[:, : self.num_token_ids].float()
        if self.softcap is not None:
            logits_NV = self.softcap * torch.tanh(logits_NV / self.softcap)
        logits_NV = logits_NV / temperature
        log_z_N = logits_NV.logsumexp(-1)
        logprobs_N = logits_NV.gather(-1, targets_N[:, None]).squeeze(-1) - log_z_N
        with torch.no_grad():
            probs_NV = torch.softmax(logits_NV, -1)
            entropy_N = log_z_N - (probs_NV * logits_NV).sum(-1)
        return logprobs_N, entropy_N


class Reference:
    """The frozen reference policy; `path` null is the starting policy.

    Raises `UserError` where its tokenizer is not the policy's.
    """

    def __init__(self, config: ReferenceConfig, model: ModelConfig, policy: LoadedModel) -> None:
        loaded = load_model(config.path or model.path, model.dtype, model.attention)
        if loaded.tokenizer.get_vocab() != policy.tokenizer.get_vocab():
            raise UserError(f"reference.path {config.path}: its tokenizer must be the policy's")
        self._forward = TokenLogprobs(loaded.model, policy.engine_model.num_token_ids).eval()

    def to(self, device: torch.device) -> None:
        self._forward.to(device)

    @torch.no_grad()
    def logprobs(self, batch: TrainBatch, temperature: float) -> torch.Tensor:
        """log π_ref of every response token at the policy's temperature, [B, T]."""
        return self._forward(batch, temperature)[0]
