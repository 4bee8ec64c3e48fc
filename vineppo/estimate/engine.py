"""What a rank's engine holds: its own weights and the key-value cache. Pure; bytes."""

from dataclasses import dataclass

from vineppo.config.schema import EngineConfig, TransformersConfig, VllmConfig
from vineppo.estimate.memory import Engine, Lines
from vineppo.estimate.shape import ModelShape

# Float32 tensors as wide as the vocabulary that sampling from a batch of logits takes at once.
SAMPLING_TENSORS = 4

WEIGHTS, STEP, CACHE = "engine: weights", "engine: a step", "engine: key-value cache"


@dataclass(frozen=True)
class Sampled:
    """The model that an engine samples from, as its memory depends on it.

    `layer_bytes` is what a token takes while it passes one layer; `num_ranks` share the engine.
    """

    shape: ModelShape
    bytes_per_weight: int
    layer_bytes: float
    num_ranks: int

    @property
    def weight_bytes(self) -> int:
        """Of one rank, like the cache's; the embeddings are divided as well."""
        return self.bytes_per_weight * self.shape.num_parameters // self.num_ranks

    @property
    def cache_bytes(self) -> int:
        """Of one token."""
        return self.bytes_per_weight * self.shape.cache_numbers // self.num_ranks

    def step_bytes(self, config: EngineConfig) -> int:
        of_layer = int(self.layer_bytes * config.max_num_batched_tokens)
        return of_layer + SAMPLING_TENSORS * 4 * config.max_num_seqs * self.shape.vocab_size


@dataclass(frozen=True)
class Cache:
    """The key-value cache of one rank.

    It has room for `num_sequences` of mean length, of which `num_running` run at once.
    """

    bytes_per_token: int
    num_tokens: int
    num_sequences: float
    num_running: float


def engine_of(config: EngineConfig, model: Sampled, num_gpus: int, gpu_gib: float) -> Engine:
    if isinstance(config, TransformersConfig):
        return _transformers(config, model)
    return _vllm_on_gpu(config, model, gpu_gib) if num_gpus else _vllm_on_cpu(config, model)


def _vllm_on_gpu(config: VllmConfig, model: Sampled, gpu_gib: float) -> Engine:
    """`gpu_memory_utilization` of all memory; the cache is what weights and a step leave of it."""
    total = int(config.gpu_memory_utilization * gpu_gib * 2**30)
    lines: Lines = {WEIGHTS: model.weight_bytes, STEP: model.step_bytes(config)}
    lines[CACHE] = max(total - sum(lines.values()), 0)
    return Engine(awake=lines, beside={} if config.sleep_while_training else lines)


def _vllm_on_cpu(config: VllmConfig, model: Sampled) -> Engine:
    """A cache of its own size; embedding and projection once more, as the processor likes them."""
    embedding = model.bytes_per_weight * model.shape.vocab_size * model.shape.hidden_size
    lines: Lines = {
        WEIGHTS: model.weight_bytes,
        "engine: repacked embeddings": 2 * embedding,
        CACHE: config.cpu_kv_cache_gib * 2**30,
    }
    return Engine(awake={**lines, STEP: model.step_bytes(config)}, beside=lines)


def _transformers(config: TransformersConfig, model: Sampled) -> Engine:
    """Every sequence has room for `max_model_len` tokens; asleep it keeps its weights."""
    cache = config.max_num_seqs * config.max_model_len * model.cache_bytes
    lines: Lines = {WEIGHTS: model.weight_bytes}
    return Engine({**lines, STEP: model.step_bytes(config), CACHE: cache}, beside=lines)


def cache_of(
    engine: Engine,
    config: EngineConfig,
    bytes_per_token: int,
    mean_tokens: float,
    num_requests: float,
) -> Cache:
    """`num_requests` are those of an iteration that this engine gets.

    1 GiB at 4,096 bytes a token: 262,144 tokens, 1,310 sequences of 200. With `max_num_seqs` 256 so
    many run at once, and 64 where an iteration has no more for the engine.
    """
    num_tokens = engine.awake[CACHE] // bytes_per_token
    room = num_tokens / mean_tokens
    return Cache(bytes_per_token, num_tokens, room, min(room, config.max_num_seqs, num_requests))
