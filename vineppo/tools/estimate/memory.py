"""The memory of a rank, line by line, at each moment of an iteration; bytes.

Weights, gradients and optimizer states under ZeRO: Rajbhandari et al. 2020 (arXiv:1910.02054,
section 3), with what DeepSpeed 0.19 keeps besides. The engine's weights and key-value cache. The
memory of passes, measured on models without memory.
"""

from dataclasses import dataclass

from vineppo.config.schema import AdamConfig, EngineConfig, TrainConfig, sums_in_float32
from vineppo.engine.vllm_config import VllmConfig
from vineppo.token_scores import CHUNK_LOGITS
from vineppo.tools.estimate.shape import Models, ModelShape, Skeleton
from vineppo.tools.estimate.work import Assumptions, has_exact_kl

Lines = dict[str, int]

GIB = 2**30
BYTES = {"float32": 4, "bfloat16": 2}

# Outside of all that a config decides: Python, torch, vLLM and DeepSpeed on a CPU
# (docs/scaling.md says how it was measured); the CUDA context and NCCL on a GPU (an assumption).
PROCESS_BYTES = int(0.8 * GIB)

# DeepSpeed's defaults, which the configs leave alone (`reduce_bucket_size` and
# `stage3_max_live_parameters`), in elements.
BUCKET = 500_000_000
LIVE_PARAMETERS = 1_000_000_000

# Float32 tensors of a chunk that are alive at once in `token_statistics`' backward pass.
CHUNK_TENSORS = 4
# Float32 tensors that sampling takes of all logits at once.
SAMPLING_TENSORS = 4

WEIGHTS, STEP, CACHE = "engine: weights", "engine: a step", "engine: key-value cache"


def memory(
    config: TrainConfig, models: Models, engine: "EngineBytes", given: Assumptions
) -> dict[str, Lines]:
    """The lines of every moment, on one rank; the peak of the run is the largest sum.

    The trainees are updated one after the other, and each one's states stay all the time. A line
    of a moment replaces a line that stays by the same name, and includes it.
    """
    resident, beside_sampling = {"process": PROCESS_BYTES}, {}
    trainees = trainees_of(config, models, given)
    if models.reference is not None:
        size = BYTES[config.model.dtype]
        resident["reference: weights"] = size * models.reference.num_parameters
    # A pass of the reference, or of the policy for the segmenter, runs while rollouts are sampled.
    scoring = trainees[0].passes.scoring
    if config.reference.kl_estimator not in ("full", None):
        beside_sampling = {"reference: activations": scoring}
    elif config.reads_entropies:
        beside_sampling = {"policy: activations": scoring}
    return moments(resident, trainees, beside_sampling, engine)


def moments(
    resident: Lines, trainees: list["Trainee"], beside_sampling: Lines, engine: "EngineBytes"
) -> dict[str, Lines]:
    for trainee in trainees:
        resident = resident | trainee.resident()
    beside = resident | engine.beside
    lines_by_moment = {"sampling": resident | beside_sampling | engine.awake}
    for trainee in trainees:
        lines_by_moment[f"scoring, {trainee.name}"] = beside | trainee.in_scoring()
        if trainee.num_trained:
            lines_by_moment[f"backward, {trainee.name}"] = beside | trainee.in_backward()
            lines_by_moment[f"step, {trainee.name}"] = beside | trainee.in_step()
    return lines_by_moment


def peak(lines_by_moment: dict[str, Lines]) -> tuple[str, int]:
    """The moment that needs most, and how many bytes."""
    totals = {moment: sum(lines.values()) for moment, lines in lines_by_moment.items()}
    moment = max(totals, key=lambda m: totals[m])
    return moment, totals[moment]


@dataclass(frozen=True)
class PassBytes:
    """Bytes that the passes of a model hold on one rank."""

    saved: int  # what the backward pass of a micro-batch needs, logits aside
    logits: int  # of a micro-batch
    chunk: int  # float32 temporaries of a part of them
    scoring: int  # one layer of a pass without gradient


def passes_of(
    config: TrainConfig, model: Skeleton, optimization: AdamConfig, given: Assumptions
) -> PassBytes:
    """Passes over micro-batches of the longest rows: a mean prompt and a full response."""
    shape, rows = model.shape, optimization.micro_batch_size
    size, longest = BYTES[config.model.dtype], config.sampling.max_tokens
    num_tokens = min(round(given.prompt_tokens) + longest, config.engine.max_model_len)
    saved, logits, chunk = model.saved_bytes(rows, num_tokens), 0, 0
    if config.model.gradient_checkpointing:
        # The input of every layer, and all of the one that is recomputed.
        inputs = rows * num_tokens * shape.hidden_size * size
        saved = saved // shape.num_layers + shape.num_layers * inputs
    if not model.is_critic:
        positions = rows * min(num_tokens, longest)
        logits = positions * (shape.vocab_size + shape.hidden_size) * size
        if has_exact_kl(config):
            logits *= 2  # the reference's stand beside them
        device = "cuda" if given.num_gpus else "cpu"
        chunk = CHUNK_TENSORS * 4 * min(positions * shape.vocab_size, CHUNK_LOGITS[device])
    scored = model.saved_bytes(config.optimization.logprobs_micro_batch_size, num_tokens)
    return PassBytes(saved, logits, chunk, scored // shape.num_layers + chunk)


@dataclass(frozen=True)
class Trainee:
    """A model under DeepSpeed and AdamW, as one rank holds it; `num_trained` parameters train.

    With none it is no more than its weights, whole on every rank.

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
    passes: PassBytes

    def resident(self) -> Lines:
        """Bytes that stay from one iteration to the next."""
        p, n = self.num_trained, self.num_ranks
        if not p:
            return self._named({"weights": self.bytes_per_weight * self.num_parameters})
        num_shards = n if self.zero_stage == 3 else 1
        lines = {"weights": self.bytes_per_weight * self.num_parameters // num_shards}
        if not self._is_optimizer_elsewhere:
            if self.zero_stage >= 1 or self._is_mixed:
                lines["float32 weights"] = 4 * p // n
            lines["Adam's moments"] = 8 * p // (n if self.zero_stage >= 1 else 1)
        if self._is_mixed:
            lines["float32 gradients"] = 4 * p
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
        step = (2 * self._bytes_per_gradient + 4) * p // n
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
    def _is_mixed(self) -> bool:
        """Stage 0 with bfloat16 weights: its float32 sums of gradients stay."""
        return self.zero_stage == 0 and self.bytes_per_weight == 2

    @property
    def _is_optimizer_elsewhere(self) -> bool:
        return self.is_on_gpu and self.offload == "optimizer"

    def _gradient_buffers(self) -> Lines:
        bucket = {"gradient bucket": self._bucket()} if self.zero_stage >= 1 else {}
        return {"gradients": self._gradients(), **bucket}

    @property
    def _bytes_per_gradient(self) -> int:
        """Bytes of a number in the sum over an update's micro-batches."""
        return 4 if sums_in_float32(self.zero_stage, self.offload) else self.bytes_per_weight

    def _gradients(self) -> int:
        if self.zero_stage <= 1:
            return self.bytes_per_weight * self.num_trained
        share = self.num_trained // self.num_ranks
        accumulated = 0 if self._is_optimizer_elsewhere else self._bytes_per_gradient * share
        # This micro-batch's.
        return accumulated + (self.bytes_per_weight * share if self.zero_stage == 2 else 0)

    def _bucket(self) -> int:
        """A CPU gives memory only to what is written; under stage 1 gradients move into it."""
        if self.is_on_gpu:
            return self.bytes_per_weight * BUCKET
        if self.zero_stage == 1:
            return 0
        return self.bytes_per_weight * min(self.num_trained, BUCKET)

    def _gathered(self) -> Lines:
        if self.zero_stage < 3 or not self.num_trained:
            return {}
        live = min(self.num_parameters, LIVE_PARAMETERS)
        return {"gathered weights": self.bytes_per_weight * live}

    def _named(self, lines: Lines) -> Lines:
        return {f"{self.name}: {line}": size for line, size in lines.items()}


def trainees_of(config: TrainConfig, models: Models, given: Assumptions) -> list[Trainee]:
    """The policy, and the critics that are separate models."""

    def trainee(
        name: str, model: Skeleton, total: int, trained: int, optimization: AdamConfig
    ) -> Trainee:
        return Trainee(
            name, total, trained, BYTES[config.model.dtype], optimization.zero_stage,
            given.num_ranks, given.num_gpus > 0, optimization.offload,
            passes_of(config, model, optimization, given),
        )  # fmt: skip

    policy, adapters = models.policy, models.num_adapter_parameters
    total = policy.shape.num_parameters
    if config.has_shared_critic:
        total += policy.shape.hidden_size  # its head
    trained = total if adapters is None else adapters
    trainees = [trainee("policy", policy, total + (adapters or 0), trained, config.optimization)]
    for key, critic in config.value_models.items():
        model, name = models.critics[key], key.replace("values.predictors.", "values/")
        count = model.shape.num_parameters
        trainees.append(trainee(name, model, count, count * critic.learns, critic))
    return trainees


@dataclass(frozen=True)
class EngineBytes:
    """The sampler of one rank: what it holds while it samples, and what while the trainer works."""

    awake: Lines
    beside: Lines
    cache_bytes: int  # of one token


def engine_of(
    config: EngineConfig, model: ModelShape, size: int, layer_bytes: float, given: Assumptions
) -> EngineBytes:
    """vLLM's engine on its share of a GPU, or on a CPU; of other engines only the weights.

    `size` is the bytes of a weight, `layer_bytes` what a token takes while it passes one layer.
    """
    num_ranks = config.ranks_a_replica  # they share the engine, the embeddings as well
    weights = {WEIGHTS: size * model.num_parameters // num_ranks}
    cache_bytes = size * model.cache_numbers // num_ranks
    if not isinstance(config, VllmConfig):
        return EngineBytes(weights, weights, cache_bytes)
    of_layer = int(layer_bytes * config.max_num_batched_tokens)
    of_logits = SAMPLING_TENSORS * 4 * config.max_num_seqs * model.vocab_size
    awake = weights | {STEP: of_layer + of_logits}
    if given.num_gpus == 0:
        # vLLM packs embedding and projection once more, as the processor likes them.
        packed = 2 * size * model.vocab_size * model.hidden_size
        beside = weights | {"engine: repacked embeddings": packed}
        beside[CACHE] = config.cpu_kv_cache_gib * GIB
        return EngineBytes(beside | awake, beside, cache_bytes)
    # The cache is what weights and a step leave of the share.
    share = int(config.gpu_memory_utilization * given.gpu_gib * GIB)
    awake |= {CACHE: max(share - sum(awake.values()), 0)}
    return EngineBytes(awake, {} if config.sleep_while_training else awake, cache_bytes)


def sequences_at_once(
    engine: EngineBytes, config: EngineConfig, mean_tokens: float, num_requests: float
) -> float:
    """As many as the cache, `max_num_seqs` and the iteration's requests allow.

    1 GiB at 4,096 bytes a token has room for 1,310 sequences of 200 tokens. With `max_num_seqs`
    256, 256 run at once, or 64 if an iteration has only 64 for the engine.
    """
    room = engine.awake.get(CACHE, 0) / engine.cache_bytes / mean_tokens
    return min(room, config.max_num_seqs, num_requests)
