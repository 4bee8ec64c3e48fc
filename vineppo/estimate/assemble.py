"""A config, a machine and assumed lengths into the figures of an iteration."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vineppo.config.schema import (
    AdamConfig,
    SftConfig,
    TrainConfig,
)
from vineppo.errors import UserError
from vineppo.estimate.memory import (
    BYTES,
    Cache,
    Engine,
    Lines,
    Passes,
    Sampled,
    Trainee,
    cache_of,
    critic_passes,
    engine_of,
    layer_bytes,
    moments,
    policy_passes,
)
from vineppo.estimate.shape import ModelShape, Skeleton, read_hf_config, scratch_config
from vineppo.estimate.work import (
    Lengths,
    SampledTokens,
    TrainedTokens,
    operations,
    sampled_tokens,
    seconds,
    trained_tokens,
)

# Outside of all that a config decides: Python, torch, vLLM and DeepSpeed on a CPU
# (docs/memory.md says how it was measured); the CUDA context and NCCL on a GPU (an assumption).
PROCESS_BYTES = {"cpu": int(0.8 * 2**30), "cuda": int(0.8 * 2**30)}


@dataclass(frozen=True)
class Machine:
    """`num_gpus` ranks with a GPU of `gpu_gib` each; 0: one process on a CPU.

    `tokens_per_s`: what one rank's engine samples; `train_tflops`: what one rank computes in all
    else, in 1e12 operations a second. None: no seconds of what depends on it.
    """

    num_gpus: int
    gpu_gib: float
    tokens_per_s: float | None
    train_tflops: float | None

    @property
    def num_ranks(self) -> int:
        return max(self.num_gpus, 1)

    @property
    def device(self) -> str:
        return "cuda" if self.num_gpus else "cpu"


@dataclass(frozen=True)
class Estimate:
    """Bytes of one rank by moment and line; tokens, operations and seconds of an iteration.

    `sampled` is None for fine-tuning, whose iteration is one update.
    """

    name: str
    model: ModelShape
    machine: Machine
    lengths: Lengths
    memory: dict[str, Lines]
    cache: Cache
    sampled: SampledTokens | None
    trained: TrainedTokens
    operations: dict[str, float]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Models:
    """The models of a run, without memory; None where there is none of its own.

    `num_adapter_parameters` train in place of the policy's own.
    """

    policy: Skeleton
    num_adapter_parameters: int | None
    critic: Skeleton | None
    reference: ModelShape | None


def estimate(
    config: TrainConfig | SftConfig, models: Models, machine: Machine, lengths: Lengths
) -> Estimate:
    """`models` are those of `read_models`.

    Raises `UserError` where the ranks are not divided into whole replicas of the engine.
    """
    shape = models.policy.shape
    passes = policy_passes(config, models.policy, lengths, machine.device)
    ranks_a_replica = getattr(config.engine, "tensor_parallel_size", 1)
    if machine.num_ranks % ranks_a_replica:
        raise UserError(
            f"config: engine.tensor_parallel_size must divide the number of ranks, "
            f"{machine.num_ranks} (--num-gpus), got {ranks_a_replica}"
        )
    size = BYTES[config.model.dtype]
    model = Sampled(shape, size, layer_bytes(models.policy), ranks_a_replica)
    engine = engine_of(config.engine, model, machine.num_gpus, machine.gpu_gib)
    sampled = sampled_tokens(config, lengths) if isinstance(config, TrainConfig) else None
    trained = trained_tokens(config, lengths)
    work = operations(
        shape.matrix_parameters,
        models.critic.shape.matrix_parameters if models.critic is not None else 0,
        sampled,
        trained,
        config.model.gradient_checkpointing,
        config.model.lora is not None,
    )
    num_engines = machine.num_ranks // ranks_a_replica
    requests = math.inf if sampled is None else sampled.num_requests / num_engines
    rates = machine.num_ranks, num_engines, machine.tokens_per_s, machine.train_tflops
    return Estimate(
        name=config.name,
        model=shape,
        machine=machine,
        lengths=lengths,
        memory=memory(config, models, passes, engine, machine, lengths),
        cache=cache_of(engine, config.engine, model.cache_bytes, lengths.sequence, requests),
        sampled=sampled,
        trained=trained,
        operations=work,
        seconds=seconds(work, sampled, *rates),
    )


def read_models(config: TrainConfig | SftConfig, model_config: Path | None) -> Models:
    """`model_config`, where given, is an HF config.json in place of `model.path`'s.

    Raises `UserError` naming the key whose model's config cannot be had.
    """
    dtype, attention = config.model.dtype, config.model.attention
    path = config.model.path
    hf_config: Any
    if model_config is None and path is None:
        assert isinstance(config, SftConfig)
        assert config.model.architecture is not None
        hf_config = scratch_config(config.model.architecture)
    else:
        hf_config = read_hf_config(path or "", "model.path", model_config)
    policy, lora = Skeleton(hf_config, dtype, attention), config.model.lora
    adapters = None if lora is None else policy.num_adapter_parameters(lora)
    if isinstance(config, SftConfig):
        return Models(policy, adapters, None, None)
    critic = None
    if config.separate_critic is not None:
        of_critic, own = hf_config, config.separate_critic.path
        if own is not None and own != path:
            of_critic = read_hf_config(own, "critic.path", None)
        critic = Skeleton(of_critic, dtype, attention, is_critic=True)
    other = config.reference.path
    # The policy without its adapters is the reference itself.
    reference = policy.shape if lora is None or other is not None else None
    if other is not None and other != path:
        of_reference = read_hf_config(other, "reference.path", None)
        reference = Skeleton(of_reference, dtype, attention).shape
    return Models(policy, adapters, critic, reference)


def memory(
    config: TrainConfig | SftConfig,
    models: Models,
    passes: Passes,
    engine: Engine,
    machine: Machine,
    lengths: Lengths,
) -> dict[str, Lines]:
    """The lines of every moment, on one rank."""
    process = {"process": PROCESS_BYTES[machine.device]}
    trained = trainees(config, models, passes, machine, lengths)
    if isinstance(config, SftConfig):
        return moments(process, trained, {}, {}, engine)
    reference: Lines = {}
    if models.reference is not None:
        size = BYTES[config.model.dtype] * models.reference.num_parameters
        reference = {"reference: weights": size}
    # Its pass runs while rollouts are sampled, but where the policy's own pass asks it.
    is_beside = config.reference.kl_estimator != "full"
    reference_pass = {"reference: activations": passes.scoring} if is_beside else {}
    return moments(process, trained, reference, reference_pass, engine)


def trainees(
    config: TrainConfig | SftConfig,
    models: Models,
    passes: Passes,
    machine: Machine,
    lengths: Lengths,
) -> list[Trainee]:
    """The policy, and the critic where it is a model of its own."""

    def trainee(
        name: str, total: int, trained: int, optimization: AdamConfig, passes: Passes
    ) -> Trainee:
        size, stage = BYTES[config.model.dtype], optimization.zero_stage
        is_on_gpu, ranks = machine.num_gpus > 0, machine.num_ranks
        offload = optimization.offload
        return Trainee(name, total, trained, size, stage, ranks, is_on_gpu, offload, passes)

    whole, adapters = models.policy.shape.num_parameters, models.num_adapter_parameters
    if isinstance(config, TrainConfig) and config.has_shared_critic:
        whole += models.policy.shape.hidden_size  # its head
    trained = whole if adapters is None else adapters
    total = whole + (adapters or 0)
    models_that_train = [trainee("policy", total, trained, config.optimization, passes)]
    critic = config.separate_critic if isinstance(config, TrainConfig) else None
    if critic is not None:
        assert isinstance(config, TrainConfig)
        assert models.critic is not None
        count = models.critic.shape.num_parameters
        of_critic = critic_passes(config, models.critic, lengths)
        models_that_train.append(trainee("critic", count, count, critic, of_critic))
    return models_that_train
