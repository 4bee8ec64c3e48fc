"""An estimate of a config on a machine, as `vineppo estimate` prints it: text, JSON, a table."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from vineppo.config.checks import check_stages
from vineppo.config.load import assign, evaluate_jsonnet, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.errors import UserError
from vineppo.tools.estimate.memory import (
    BYTES,
    GIB,
    KeyValueCache,
    Lines,
    Sampled,
    cache_of,
    engine_of,
    longest_response,
    memory,
    peak,
)
from vineppo.tools.estimate.shape import Models, ModelShape, read_models
from vineppo.tools.estimate.work import (
    Lengths,
    Machine,
    SampledTokens,
    TrainedTokens,
    operations,
    rollout_tokens,
    sampled_tokens,
    seconds,
    trained_tokens,
)

Config = TypeVar("Config", TrainConfig, SftConfig)


@dataclass(frozen=True)
class Estimate:
    """Bytes of one rank by moment and line; tokens, operations and seconds of an iteration.

    `sampled` is None for fine-tuning, where an iteration is one update.
    """

    name: str
    model: ModelShape
    machine: Machine
    lengths: Lengths
    memory: dict[str, Lines]
    cache: KeyValueCache
    sampled: SampledTokens | None
    trained: TrainedTokens
    operations: dict[str, float]
    seconds: dict[str, float]


def print_estimate(options: argparse.Namespace) -> None:
    """Prints all figures of one config on one machine, or a table of several."""
    estimates = [estimate for path in options.configs for estimate in estimates_of(path, options)]
    if options.json:
        figures = [as_dict(estimate) for estimate in estimates]
        print(json.dumps(figures if len(figures) > 1 else figures[0], indent=2))
    else:
        print(as_text(estimates[0]) if len(estimates) == 1 else as_table(estimates))


def estimates_of(path: str, options: argparse.Namespace) -> list[Estimate]:
    """Estimates for a config of `vineppo train` or `vineppo sft`, by number of GPUs."""
    resolved = evaluate_jsonnet(path)
    for assignment in options.assignments:
        assign(resolved, assignment)
    kind: Any = TrainConfig if "credit" in resolved else SftConfig
    config = parse_config(kind, resolved)
    models = read_models(config, options.model_config)
    response = options.response_share * longest_response(config)
    lengths = Lengths(options.prompt_tokens, response, options.steps)
    rates = options.gpu_gib, options.tokens_per_s, options.train_tflops
    return [estimate(config, models, Machine(n, *rates), lengths) for n in options.num_gpus]


def estimate(config: Config, models: Models, machine: Machine, lengths: Lengths) -> Estimate:
    """`models` are those of `read_models`.

    Raises `UserError` where the ranks are not divided into whole replicas of the engine.
    """
    is_recomputing = config.model.gradient_checkpointing
    if is_recomputing == "auto":
        is_recomputing = machine.num_gpus > 0
        shown = replace(config.model, gradient_checkpointing=is_recomputing)
        config = replace(config, model=shown)
    ranks_a_replica = config.engine.ranks_a_replica
    if machine.num_ranks % ranks_a_replica:
        raise UserError(
            f"config: engine.tensor_parallel_size must divide the number of ranks, "
            f"{machine.num_ranks} (--num-gpus), got {ranks_a_replica}"
        )
    check_stages(config, machine.num_ranks)
    num_engines = machine.num_ranks // ranks_a_replica
    shape, size = models.policy.shape, BYTES[config.model.dtype]
    model = Sampled(shape, size, models.policy.layer_bytes, ranks_a_replica)
    engine = engine_of(config.engine, model, machine.num_gpus, machine.gpu_gib)
    sampled = sampled_tokens(config, lengths) if isinstance(config, TrainConfig) else None
    trained = trained_tokens(config, lengths)
    work = operations(
        shape.matrix_parameters,
        critics_work(config, models, sampled, lengths),
        sampled,
        trained,
        is_recomputing,
        config.model.lora is not None,
    )
    requests = math.inf if sampled is None else sampled.num_requests / num_engines
    return Estimate(
        name=config.name,
        model=shape,
        machine=machine,
        lengths=lengths,
        memory=memory(config, models, engine, machine, lengths),
        cache=cache_of(engine, config.engine, model.cache_bytes, lengths.sequence, requests),
        sampled=sampled,
        trained=trained,
        operations=work,
        seconds=seconds(work, sampled, machine, num_engines),
    )


def critics_work(
    config: TrainConfig | SftConfig,
    models: Models,
    sampled: SampledTokens | None,
    lengths: Lengths,
) -> list[tuple[int, float, float]]:
    """(parameters, scored tokens, tokens updated on) of every critic and of the reward model.

    The reward model reads every response, and every continuation with its state.
    """
    if isinstance(config, SftConfig) or sampled is None:
        return []
    tokens = rollout_tokens(config, lengths)
    work = [
        (models.critics[key].shape.matrix_parameters, tokens, tokens * critic.num_epochs)
        for key, critic in config.value_models.items()
    ]
    if models.reward_model is not None:
        read = tokens + sampled.num_continuations * lengths.sequence
        work.append((models.reward_model.shape.matrix_parameters, read, 0.0))
    return work


def as_dict(estimate: Estimate) -> dict[str, Any]:
    """Every figure: bytes, tokens, operations, seconds. `memory` holds the lines of each moment."""
    moment, num_bytes = peak(estimate.memory)
    return {
        **asdict(estimate),
        "peak": {"moment": moment, "bytes": num_bytes},
        "matrix_parameters": estimate.model.matrix_parameters,
        "assumptions": assumptions(estimate),
    }


def as_text(estimate: Estimate) -> str:
    """The peak's lines, the other moments' sums, tokens, operations and seconds by phase."""
    moment, _ = peak(estimate.memory)
    at_peak = {line: size / GIB for line, size in estimate.memory[moment].items()}
    sums = {other: sum(lines.values()) / GIB for other, lines in estimate.memory.items()}
    del sums[moment]
    sampled = {} if estimate.sampled is None else asdict(estimate.sampled)
    tokens = sampled | asdict(estimate.trained)
    parts = {
        f"memory of a rank at its peak ({moment}), GiB": with_sum(at_peak),
        "at the other moments, GiB": sums,
        "tokens of an iteration, all ranks, thousands": {
            LABELS[name]: count / 1e3 for name, count in tokens.items()
        },
        "operations of an iteration, all ranks, 1e15": {
            phase: count / 1e15 for phase, count in estimate.operations.items()
        },
    }
    if estimate.seconds:
        parts["seconds of an iteration"] = with_sum(estimate.seconds)
    tables = [f"{title}\n{columns(numbers)}" for title, numbers in parts.items()]
    assumed = "\n".join(["assumed", *(f"  {line}" for line in assumptions(estimate))])
    return "\n\n".join([headline(estimate), *tables, assumed])


LABELS = {
    "rollouts": "sampled: rollouts",
    "continuations": "sampled: continuations",
    "prefixes": "fed, without a cache",
    "fed": "fed, with the cache",
    "num_requests": "(requests)",
    "num_states": "(states)",
    "num_continuations": "(continuations)",
    "scored": "scored by the policy",
    "reference": "scored by the reference",
    "critic_scored": "scored by critics",
    "updated": "updated on, policy",
    "critic_updated": "updated on, critics",
}


def headline(estimate: Estimate) -> str:
    machine, model, cache = estimate.machine, estimate.model, estimate.cache
    where = (
        f"{machine.num_gpus} x {machine.gpu_gib:g} GiB of GPU" if machine.num_gpus else "one CPU"
    )
    tied = "tied" if model.is_tied else "untied"
    return (
        f"{estimate.name} on {where}\n"
        f"  {model.num_parameters:,} parameters in {model.num_layers} layers of "
        f"{model.hidden_size}; {model.vocab_size:,} ids, {tied}\n"
        f"  key-value cache: {cache.bytes_per_token:,} bytes a token, {cache.num_tokens:,} tokens, "
        f"{cache.num_sequences:,.0f} sequences of mean length; {cache.num_running:,.0f} run at once"
    )


def assumptions(estimate: Estimate) -> list[str]:
    """What the figures rest on besides the config."""
    lengths, machine = estimate.lengths, estimate.machine
    lines = [
        f"prompts of {lengths.prompt:g} tokens, responses of {lengths.response:g} in "
        f"{lengths.steps:g} steps (means)",
        "the largest micro-batch is full of prompts of mean length with responses of full length",
        "2 operations a parameter and token forward, 6 with backward, 8 with checkpointing; "
        "attention's own products are left out",
        "evaluations and checkpoints are left out",
        "what recipes and plug-ins of your own sample and train besides is not counted",
    ]
    if estimate.seconds:
        lines.append("ranks are evenly loaded and phases do not overlap")
    if machine.tokens_per_s is not None:
        lines.append(f"an engine samples {machine.tokens_per_s:,g} tokens/s")
    if machine.train_tflops is not None:
        lines.append(f"a rank computes {machine.train_tflops:g}e12 operations/s in all else")
    if machine.num_gpus:
        lines.append('the CUDA context and NCCL take the line "process", which no run measured')
    return lines


def as_table(estimates: Sequence[Estimate]) -> str:
    """Markdown, a row an estimate."""
    rows = [row(estimate) for estimate in estimates]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(cells.values()) for cells in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def row(estimate: Estimate) -> dict[str, str]:
    """By column. A peak above the GPU's memory is marked."""
    moment, num_bytes = peak(estimate.memory)
    machine, sampled = estimate.machine, estimate.sampled
    is_too_much = machine.num_gpus and num_bytes > machine.gpu_gib * GIB
    tokens = 0.0 if sampled is None else (sampled.rollouts + sampled.continuations) / 1e6
    phases = ("rollouts", "values", "prefixes")
    sampling = sum(estimate.seconds.get(phase, 0.0) for phase in phases)
    everything = sum(estimate.seconds.values())
    return {
        "config": estimate.name,
        "GPUs": str(machine.num_gpus),
        "peak, GiB": digits(num_bytes / GIB) + (" (too much)" if is_too_much else ""),
        "at": moment,
        "sequences at once": digits(estimate.cache.num_running),
        "sampled tokens, millions": digits(tokens),
        "sampling, s": digits(sampling),
        "training, s": digits(everything - sampling),
        "iteration, s": digits(everything),
    }


def with_sum(numbers: Mapping[str, float]) -> dict[str, float]:
    return {**numbers, "sum": sum(numbers.values())}


def columns(numbers: Mapping[str, float]) -> str:
    """Two columns, numbers with three significant digits or all before the point."""
    width = max(map(len, numbers))
    return "\n".join(f"  {name:<{width}}  {digits(x):>10}" for name, x in numbers.items())


def digits(x: float) -> str:
    """`digits(1234.5)` is "1,234" and `digits(0.012345)` "0.0123"."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"
