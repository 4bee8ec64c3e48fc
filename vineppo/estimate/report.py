"""What `vineppo estimate` prints: as text and as JSON."""

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from vineppo.config.load import assign, evaluate_jsonnet, parse_config
from vineppo.config.schema import SftConfig, TrainConfig
from vineppo.estimate.assemble import Estimate, Machine, estimate, read_models
from vineppo.estimate.memory import Lines, longest_response, peak
from vineppo.estimate.options import check_options
from vineppo.estimate.work import Lengths, SampledTokens, TrainedTokens

GIB = 2**30


def as_dict(estimate: Estimate) -> dict[str, Any]:
    """Every figure: bytes, tokens, operations, seconds. `memory` holds the lines of each moment."""
    moment, num_bytes = peak(estimate.memory)
    return {
        **dataclasses.asdict(estimate),
        "peak": {"moment": moment, "bytes": num_bytes},
        "matrix_parameters": estimate.model.matrix_parameters,
        "assumptions": assumptions(estimate),
    }


def as_text(estimate: Estimate) -> str:
    """The peak's lines, the other moments' sums, tokens, operations and seconds by phase."""
    moment, _ = peak(estimate.memory)
    parts = [
        headline(estimate),
        f"memory of a rank at its peak ({moment}), GiB\n{table(gib(estimate.memory[moment]))}",
        "at the other moments, GiB\n"
        + table(
            {other: sum(lines.values()) / GIB for other, lines in estimate.memory.items()
             if other != moment}
        ),
        f"tokens of an iteration, all ranks, thousands\n{table(thousands(estimate))}",
        "operations of an iteration, all ranks, 1e15\n"
        + table({phase: count / 1e15 for phase, count in estimate.operations.items()}),
    ]  # fmt: skip
    if estimate.seconds:
        parts.append(f"seconds of an iteration\n{table(with_sum(estimate.seconds))}")
    parts.append("assumed\n" + "\n".join(f"  {line}" for line in assumptions(estimate)))
    return "\n\n".join(parts)


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


def gib(lines: Lines) -> dict[str, float]:
    return with_sum({line: size / GIB for line, size in lines.items()})


def thousands(estimate: Estimate) -> dict[str, float]:
    counted: list[SampledTokens | TrainedTokens] = [estimate.trained]
    if estimate.sampled is not None:
        counted.insert(0, estimate.sampled)
    named: dict[str, float] = {}
    for tokens in counted:
        named |= {label: getattr(tokens, field) / 1e3 for field, label in LABELS[type(tokens)]}
    return named


LABELS: dict[type, tuple[tuple[str, str], ...]] = {
    SampledTokens: (
        ("rollouts", "sampled: rollouts"),
        ("continuations", "sampled: continuations"),
        ("prefixes", "fed, without a cache"),
        ("fed", "fed, with the cache"),
        ("num_requests", "(requests)"),
        ("num_states", "(states)"),
        ("num_continuations", "(continuations)"),
    ),
    TrainedTokens: (
        ("scored", "scored by the policy"),
        ("reference", "scored by the reference"),
        ("critic_scored", "scored by the critic"),
        ("updated", "updated on, policy"),
        ("critic_updated", "updated on, critic"),
    ),
}


def with_sum(numbers: Mapping[str, float]) -> dict[str, float]:
    return {**numbers, "sum": sum(numbers.values())}


def table(numbers: Mapping[str, float]) -> str:
    """Two columns, numbers with three significant digits or all before the point."""
    width = max(map(len, numbers))
    return "\n".join(f"  {name:<{width}}  {digits(x):>10}" for name, x in numbers.items())


def digits(x: float) -> str:
    """`digits(1234.5)` is "1,234" and `digits(0.012345)` "0.0123"."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def print_estimate(options: argparse.Namespace) -> None:
    """As text, or as JSON where `options.json`."""
    (result,) = estimates(options.config, options, [options.num_gpus])
    print(json.dumps(as_dict(result), indent=2) if options.json else as_text(result))


def estimates(path: str, options: argparse.Namespace, gpus: Sequence[int]) -> list[Estimate]:
    """Of the config at `path` on each of `gpus`.

    Raises `UserError` for a mistake in the options or the config.
    """
    check_options(options)
    config = load_either(path, options.assignments)
    models = read_models(config, options.model_config)
    response = options.response_share * longest_response(config)
    lengths = Lengths(options.prompt_tokens, response, options.steps)
    rates = options.gpu_gib, options.tokens_per_s, options.train_tflops
    return [estimate(config, models, Machine(count, *rates), lengths) for count in gpus]


def load_either(path: str, assignments: list[str]) -> TrainConfig | SftConfig:
    """A config of `vineppo train`, which has `rollouts`, or of `vineppo sft`, which has none."""
    resolved = evaluate_jsonnet(path)
    for assignment in assignments:
        assign(resolved, assignment)
    if "rollouts" in resolved:
        return parse_config(TrainConfig, resolved)
    return parse_config(SftConfig, resolved)
