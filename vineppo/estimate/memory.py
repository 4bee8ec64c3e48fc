"""What fills the memory of a rank, line by line, at each moment of an iteration; bytes.

Weights, gradients and optimizer states under ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054,
section 3), with what DeepSpeed 0.19 keeps besides; the engine's weights and key-value cache; what
passes hold, measured on models without memory.
"""

from dataclasses import dataclass

from vineppo.config.schema import (
    EngineConfig,
    OptimizationConfig,
    ReferenceConfig,
    SftConfig,
    TrainConfig,
    TransformersConfig,
    VllmConfig,
)
from vineppo.estimate.shape import ModelShape, Skeleton
from vineppo.estimate.work import Lengths
from vineppo.vocabulary import CHUNK_LOGITS

Lines = dict[str, int]

# DeepSpeed's defaults, which the configs leave alone (`reduce_bucket_size` and
# `stage3_max_live_parameters`), in elements.
BUCKET = 500_000_000
LIVE_PARAMETERS = 1_000_000_000

# Float32 tensors of a chunk that are alive at once in `vocabulary.py`'s backward pass.
CHUNK_TENSORS = 4


@dataclass(frozen=True)
class Passes:
    """What the passes of a model hold on one rank, in bytes.

    `saved`: what the backward pass of a micro-batch needs, logits aside. `logits`: those of a
    micro-batch. `chunk`: float32 temporaries of a part of them. `scoring`: one layer of a pass
    without gradient.
    """

    saved: int
    logits: int
    chunk: int
    scoring: int


@dataclass(frozen=True)
class Trainee:
    """A model under DeepSpeed and AdamW, as one rank holds it; `num_trained` parameters train.

    1.5 billion bfloat16 parameters under stage 1 on one rank: 3 GB of weights, 6 GB of float32
    weights, 12 GB of moments, and 3 GB of gradients while there are any.
    """

    name: str
    num_parameters: int
    num_trained: int
    bytes_per_weight: int
    zero_stage: int
    num_ranks: int
    is_on_gpu: bool
    offload: str  # `optimization.offload`
    passes: Passes

    def resident(self, is_sampling: bool = False) -> Lines:
        """What stays from one iteration to the next, where the trainer works or the engine."""
        num_shards = self.num_ranks if self.zero_stage == 3 else 1
        lines = {"weights": self.bytes_per_weight * self.num_parameters // num_shards}
        if not (self.is_on_gpu and self.offload == "while_sampling" and is_sampling):
            if not self._is_optimizer_elsewhere:
                lines |= self._states()
            if self.zero_stage == 3:  # DeepSpeed makes these before the first pass, for good
                lines |= self._gradient_buffers()
        return self._named(lines)

    def in_scoring(self) -> Lines:
        return self._named(self._gathered() | {"activations": self.passes.scoring})

    def in_backward(self) -> Lines:
        """At the start of the last micro-batch's backward pass, when most is alive."""
        lines = self._gathered() | {
            "activations": self.passes.saved,
            "logits": self.passes.logits,
            "softmax of a chunk": self.passes.chunk,
        }
        return self._named(lines | self._gradient_buffers())

    def in_step(self) -> Lines:
        """While the optimizer steps: this rank's share of the gradients as they came, flat, and in
        float32. Stage 1 has reduced all of them just before; so has stage 0 where there are several
        ranks, through a flat copy.
        """
        p, e, n = self.num_trained, self.bytes_per_weight, self.num_ranks
        step = (2 * e + 4) * p // n
        if self.zero_stage == 0:
            step = e * (p + (min(p, BUCKET) if n > 1 else 0))
        if self._is_optimizer_elsewhere:
            step = self._gradients()  # the step is the CPU's
        if self.zero_stage == 1:
            step = max(step, self._gradients() + e * p // n + self._bucket())
        lines = {"gradients": step}
        if not self.is_on_gpu:
            # Freed, but malloc keeps pieces below 32 MiB, and a pass on a CPU has no larger ones.
            lines["activations, kept by malloc"] = self.passes.saved
        return self._named(lines)

    @property
    def _is_optimizer_elsewhere(self) -> bool:
        return self.is_on_gpu and self.offload == "optimizer"

    def _states(self) -> Lines:
        p, n = self.num_trained, self.num_ranks
        if self.zero_stage == 0:
            return {"Adam's moments": 8 * p}
        return {"float32 weights": 4 * p // n, "Adam's moments": 8 * p // n}

    def _gradient_buffers(self) -> Lines:
        bucket = {"gradient bucket": self._bucket()} if self.zero_stage >= 1 else {}
        return {"gradients": self._gradients(), **bucket}

    def _gradients(self) -> int:
        whole = self.bytes_per_weight * self.num_trained
        share = whole // self.num_ranks
        accumulated = 0 if self._is_optimizer_elsewhere else share
        match self.zero_stage:
            case 0 | 1:
                return whole
            case 2:
                return accumulated + share  # this micro-batch's
            case _:
                return accumulated

    def _bucket(self) -> int:
        """A CPU gives memory only to what is written; under stage 1 gradients move into it."""
        if self.is_on_gpu:
            return self.bytes_per_weight * BUCKET
        if self.zero_stage == 1:
            return 0
        return self.bytes_per_weight * min(self.num_trained, BUCKET)

    def _gathered(self) -> Lines:
        if self.zero_stage < 3:
            return {}
        live = min(self.num_parameters, LIVE_PARAMETERS)
        return {"gathered weights": self.bytes_per_weight * live}

    def _named(self, lines: Lines) -> Lines:
        return {f"{self.name}: {line}": size for line, size in lines.items()}


@dataclass(frozen=True)
class Engine:
    """The sampler of one rank: what it holds while it samples, and what while the trainer works."""

    awake: Lines
    beside: Lines


def moments(
    process: Lines,
    trainees: list[Trainee],
    reference: Lines,
    reference_pass: Lines,
    engine: Engine,
) -> dict[str, Lines]:
    """Every line of every moment; the peak of the run is the largest sum.

    The trainees are updated one after the other, and each one's states stay all the time. A line
    that a moment has by the name of one that stays, such as a share's gradients, includes it.
    """
    sampling, beside = process | reference, process | reference | engine.beside
    for trainee in trainees:
        sampling |= trainee.resident(is_sampling=True)
        beside |= trainee.resident()
    lines_by_moment = {"sampling": sampling | reference_pass | engine.awake}
    for trainee in trainees:
        lines_by_moment[f"scoring, {trainee.name}"] = beside | trainee.in_scoring()
        lines_by_moment[f"backward, {trainee.name}"] = beside | trainee.in_backward()
        lines_by_moment[f"step, {trainee.name}"] = beside | trainee.in_step()
    return lines_by_moment


def peak(lines_by_moment: dict[str, Lines]) -> tuple[str, int]:
    """The moment that needs most, and how many bytes."""
    totals = {moment: sum(lines.values()) for moment, lines in lines_by_moment.items()}
    moment = max(totals, key=lambda m: totals[m])
    return moment, totals[moment]


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


BYTES = {"float32": 4, "bfloat16": 2}


def policy_passes(
    config: TrainConfig | SftConfig, policy: Skeleton, lengths: Lengths, device: str
) -> Passes:
    """Of micro-batches of the longest rows; `device` is "cpu" or "cuda"."""
    optimization, shape = config.optimization, policy.shape
    num_tokens = longest_row(config, lengths)
    rows = optimization.micro_batch_size
    positions = rows * min(num_tokens, longest_response(config))
    logits = positions * (shape.vocab_size + shape.hidden_size) * BYTES[config.model.dtype]
    if isinstance(config, TrainConfig) and has_exact_kl(config.reference):
        logits *= 2  # the reference's stand beside them
    cells = min(positions * shape.vocab_size, CHUNK_LOGITS[device])
    chunk = CHUNK_TENSORS * 4 * cells
    scoring = 0
    if isinstance(optimization, OptimizationConfig):
        scored = policy.saved_bytes(optimization.logprobs_micro_batch_size, num_tokens)
        scoring = scored // shape.num_layers + chunk
    return Passes(_saved(config, policy, rows, num_tokens), logits, chunk, scoring)


def critic_passes(config: TrainConfig, critic: Skeleton, lengths: Lengths) -> Passes:
    """Of a critic of its own, which has no logits."""
    assert config.separate_critic is not None
    num_tokens = longest_row(config, lengths)
    scored = critic.saved_bytes(config.optimization.logprobs_micro_batch_size, num_tokens)
    saved = _saved(config, critic, config.separate_critic.micro_batch_size, num_tokens)
    return Passes(saved, logits=0, chunk=0, scoring=scored // critic.shape.num_layers)


def longest_row(config: TrainConfig | SftConfig, lengths: Lengths) -> int:
    """Tokens of the longest sequence that trains: a prompt of mean length and a full response."""
    if isinstance(config, SftConfig):
        return config.optimization.max_tokens
    longest = round(lengths.prompt) + config.sampling.max_tokens
    return min(longest, config.engine.max_model_len)


def longest_response(config: TrainConfig | SftConfig) -> int:
    if isinstance(config, SftConfig):
        return config.optimization.max_tokens
    return config.sampling.max_tokens


def has_exact_kl(reference: ReferenceConfig) -> bool:
    """Whether the update asks the reference for its logits."""
    return reference.kl_estimator == "full" and reference.kl_in == "loss"


def layer_bytes(policy: Skeleton) -> float:
    """What a token takes while it passes one layer."""
    num_tokens = 16  # few, so that the square of the mask is nothing
    return policy.saved_bytes(1, num_tokens) / num_tokens / policy.shape.num_layers


def _saved(config: TrainConfig | SftConfig, model: Skeleton, rows: int, num_tokens: int) -> int:
    """With checkpointing, the input of every layer, and all of the one that is recomputed."""
    saved, shape = model.saved_bytes(rows, num_tokens), model.shape
    if not config.model.gradient_checkpointing:
        return saved
    inputs = rows * num_tokens * shape.hidden_size * BYTES[config.model.dtype]
    return saved // shape.num_layers + shape.num_layers * inputs
