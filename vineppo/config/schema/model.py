"""The model, its optimizer, and the policy as it samples."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from vineppo.config.schema.scalars import (
    Count,
    Decay,
    Dtype,
    Name,
    NonNegative,
    Positive,
    PositiveFraction,
    Share,
)
from vineppo.plugins import Plugin, PluginConfig

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Adapters(PluginConfig):
    """Weights that train instead of the model's; the engine and checkpoints get them merged."""

    def add(self, model: Any, run_seed: int) -> None:
        """Puts the adapters on the model, in place, and freezes the rest."""
        raise NotImplementedError

    def merged_weights(self, model: Any) -> "Iterator[tuple[str, torch.Tensor]]":
        """`named_weights` of the model as it would be if they were merged, one at a time."""
        raise NotImplementedError

    def without(self, model: Any) -> AbstractContextManager[None]:
        """The model as it was before `add`; what trains keeps its flags."""
        raise NotImplementedError

    def save(self, model: Any, directory: Path) -> None:
        """Writes the adapters alone."""
        raise NotImplementedError


@dataclass(frozen=True)
class ModelConfig:
    """The starting policy: an HF hub name, a directory, or `embedded:NAME` (in the package)."""

    path: Name
    dtype: Dtype = "bfloat16"
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient_checkpointing: bool | Literal["auto"] = "auto"  # on a GPU
    lora: Annotated[Adapters, Plugin("adapters")] | None = None  # null: all weights train


@dataclass(frozen=True)
class LlamaArchitecture:
    """A Llama to train from scratch; its tokenizer is the task's own."""

    hidden_size: Count
    intermediate_size: Count
    num_layers: Count
    num_heads: Count
    num_key_value_heads: Count
    max_position_embeddings: Count


@dataclass(frozen=True)
class SftModelConfig:
    """A model to fine-tune: either `path` (as in `ModelConfig`) or a new `architecture`."""

    path: Name | None = None
    architecture: LlamaArchitecture | None = None
    dtype: Dtype = "bfloat16"
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    lora: Annotated[Adapters, Plugin("adapters")] | None = None


@dataclass(frozen=True)
class SamplingConfig:
    """The policy as it samples while training."""

    temperature: Annotated[float, Field(ge=0.01, le=2)] = 1.0  # vLLM raises what is lower to 0.01
    top_p: PositiveFraction = 1.0
    max_tokens: Count = 1024  # tokens of a response
    top_k: Count | None = None  # the likeliest tokens that may be sampled; null: all
    min_p: Share = 0.0  # what is less likely than this times the likeliest is never sampled

    @property
    def is_cut(self) -> bool:
        """Tokens that the trained policy may choose are never sampled."""
        return self.top_p < 1 or self.top_k is not None or self.min_p > 0


@dataclass(frozen=True)
class RolloutsConfig:
    num_prompts: Count = 64
    num_samples: Count = 8


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """AdamW, and the layout of an update on the machine."""

    learning_rate: PositiveFraction
    schedule: Literal["constant", "linear"] = "constant"  # after the warm-up; linear ends at 0
    warmup_fraction: Share = 0.03  # of all updates
    adam_beta1: Decay = 0.9
    adam_beta2: Decay = 0.999
    adam_eps: Positive = 1e-8
    weight_decay: NonNegative = 0.0
    max_grad_norm: Positive = 1.0
    num_epochs: Count = 2  # passes over an iteration's rollouts, or over the demonstrations
    batch_size: Count = 64  # sequences of one update, over all ranks
    micro_batch_size: Count  # longest sequences of one pass on a rank; of shorter ones more
    zero_stage: Literal[0, 1, 2, 3] = 0  # of bfloat16, 0 is for one rank
    offload: Literal["nothing", "optimizer"] = "nothing"  # the CPU holds and steps the optimizer


def sums_in_float32(zero_stage: int, offload: str) -> bool:
    """True if the gradients of a bfloat16 model are summed in float32 over micro-batches.

    Stages 1 and 3 save memory instead. With the optimizer on the CPU, an update after a skipped one
    would then change nothing (DeepSpeed 0.19.8).
    """
    return zero_stage == 0 or (zero_stage == 2 and offload != "optimizer")
