"""The model."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from vineppo.config.schema.scalars import (
    Count,
    Dtype,
    Name,
    Positive,
    PositiveFraction,
)


@dataclass(frozen=True)
class LoraConfig:
    """Adapters of low rank that train in place of the weights (`vineppo/lora.py`)."""

    rank: Count
    alpha: Positive  # the adapters' product counts alpha / rank
    # Linear modules by the ends of their names, such as "q_proj".
    target_modules: Annotated[tuple[Name, ...], Field(min_length=1)]


@dataclass(frozen=True)
class ModelConfig:
    """The starting policy: an HF hub name, a directory, or `embedded:NAME` (in the package)."""

    path: Name
    dtype: Dtype = "bfloat16"
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient_checkpointing: bool | Literal["auto"] = "auto"  # on a GPU
    lora: LoraConfig | None = None  # null: all weights train


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
    lora: LoraConfig | None = None


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
