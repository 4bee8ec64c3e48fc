"""The model."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from vineppo.config.schema.scalars import Count, Dtype, Name, PositiveFraction
from vineppo.plugins import Plugin, PluginConfig

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Adapters(PluginConfig):
    """Weights that train in place of the model's; the engine and checkpoints get them merged."""

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


@dataclass(frozen=True)
class RolloutsConfig:
    num_prompts: Count = 64
    num_samples: Count = 8
