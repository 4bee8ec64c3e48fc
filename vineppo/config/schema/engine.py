"""The engine, and what it samples while training."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from vineppo.config.schema.scalars import (
    Count,
    Dtype,
)


@dataclass(frozen=True)
class VllmConfig:
    """vLLM in this process."""

    kind: Literal["vllm"]
    dtype: Dtype
    block_size: (
        Count  # tokens of a KV block, the grain of the prefix cache; a multiple of 32 on a CPU
    )
    max_model_len: Count
    max_num_seqs: Count  # sequences that run at once
    max_num_batched_tokens: Count  # tokens of one engine step
    tensor_parallel_size: Count  # ranks of one machine that share a replica; 1: each has its own
    cpu_kv_cache_gib: Count  # CPU only
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)]  # CUDA only
    enforce_eager: bool
    prefix_caching: bool
    sleep_while_training: bool  # CUDA only: give the KV cache's memory to the trainer


@dataclass(frozen=True)
class TransformersConfig:
    """transformers in this process: slower than vLLM, and needs nothing else."""

    kind: Literal["transformers"]
    dtype: Dtype
    max_model_len: Count
    max_num_seqs: Count  # sequences that run at once; each has max_model_len tokens of memory
    max_num_batched_tokens: Count  # tokens of one pass over prefixes, padding included


EngineConfig = Annotated[VllmConfig | TransformersConfig, Field(discriminator="kind")]


@dataclass(frozen=True)
class SamplingConfig:
    """The policy as it samples while training."""

    temperature: Annotated[float, Field(ge=0.01, le=2)]  # vLLM raises what is lower to 0.01
    top_p: Annotated[float, Field(gt=0, le=1)]
    max_tokens: Count  # tokens of a response


@dataclass(frozen=True)
class RolloutsConfig:
    num_prompts: Count
    num_samples: Count
