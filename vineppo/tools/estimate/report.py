"""An estimate of a config on a machine, as `vineppo estimate` prints it: text, JSON, a table."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from vineppo.config.checks import check_stages
from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.run_dir import RunDir
from vineppo.tools.estimate.memory import (
    BYTES,
    GIB,
    Lines,
    engine_of,
    memory,
    peak,
    sequences_at_once,
)
from vineppo.tools.estimate.shape import Models, ModelShape, read_models
from vineppo.tools.estimate.work import (
    Assumptions,
    operations,
    sampled_tokens,
    seconds,
    trained_tokens,
)


@dataclass(frozen=True)
class Estimate:
    """Bytes of one rank by moment and line; tokens, operations and seconds of an iteration."""

    name: str
    model: ModelShape
    assumptions: Assumptions
    memory: dict[str, Lines]
    cache_bytes_per_token: int
    sequences_at_once: float
    sampled: dict[str, float]
    trained: dict[str, float]
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
    """Estimates for a config of `vineppo train`, by number of GPUs."""
    config = load_config(TrainConfig, path, options.assignments)
    models = read_models(config, options.model_config)
    response = options.response_share * config.sampling.max_tokens
    rates = options.gpu_gib, tokens_per_s(options.tokens_per_s), options.train_tflops
    lengths = options.prompt_tokens, response, config.credit.segmenter.expected(options.steps)
    return [estimate(config, models, Assumptions(n, *rates, *lengths)) for n in options.num_gpus]


def tokens_per_s(given: str | None) -> float | None:
    """The number, or what one engine of a run on one rank sampled a second: its median iteration.

    Where `given` is a run directory. Raises `UserError`.
    """
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        rows = RunDir(Path(given)).read_metrics()
    sampling = ("tokens/rollout", "tokens/values"), ("time/rollout_s", "time/values_s")
    pairs = [[sum(row.get(name, 0.0) for name in names) for names in sampling] for row in rows]
    rates = [count / time_s for count, time_s in pairs if time_s]
    if not rates:
        raise UserError(f"--tokens-per-s must be a number or a run directory, got {given!r}")
    return median(rates)


def estimate(config: TrainConfig, models: Models, given: Assumptions) -> Estimate:
    if config.model.gradient_checkpointing == "auto":
        shown = replace(config.model, gradient_checkpointing=given.num_gpus > 0)
        config = replace(config, model=shown)
    num_engines, rest = divmod(given.num_ranks, config.engine.ranks_a_replica)
    if rest:
        raise UserError(
            "config: engine.tensor_parallel_size must divide the number of ranks, "
            f"{given.num_ranks} (--num-gpus), got {config.engine.ranks_a_replica}"
        )
    check_stages(config, given.num_ranks)
    policy, size = models.policy, BYTES[config.model.dtype]
    engine = engine_of(config.engine, policy.shape, size, policy.layer_bytes, given)
    sampled, trained = sampled_tokens(config, given), trained_tokens(config, given)
    tokens = trained["updated"] / config.optimization.num_epochs
    critics = [
        (models.critics[key].shape.matrix_parameters, tokens, tokens * critic.num_epochs)
        for key, critic in config.value_models.items()
    ]
    work = operations(
        policy.shape.matrix_parameters,
        critics,
        sampled,
        trained,
        bool(config.model.gradient_checkpointing),
        config.model.lora is not None,
    )
    num_requests = sampled["num_requests"] / num_engines
    return Estimate(
        name=config.name,
        model=policy.shape,
        assumptions=given,
        memory=memory(config, models, engine, given),
        cache_bytes_per_token=engine.cache_bytes,
        sequences_at_once=sequences_at_once(
            engine, config.engine, given.sequence_tokens, num_requests
        ),
        sampled=sampled,
        trained=trained,
        operations=work,
        seconds=seconds(work, sampled, given, num_engines),
    )


def as_dict(estimate: Estimate) -> dict[str, Any]:
    """Every figure: bytes, tokens, operations, seconds. `memory` holds the lines of each moment."""
    moment, num_bytes = peak(estimate.memory)
    return asdict(estimate) | {"peak": {"moment": moment, "bytes": num_bytes}}


def as_text(estimate: Estimate) -> str:
    """The row of the table as a column, and the lines of the peak in GiB."""
    moment, _ = peak(estimate.memory)
    lines = {name: digits(size / GIB) for name, size in estimate.memory[moment].items()}
    given = {name: f"{x:g}" for name, x in asdict(estimate.assumptions).items() if x is not None}
    parts = {
        "estimate": row(estimate),
        f"memory of a rank at its peak ({moment}), GiB": lines,
        "assumed (docs/scaling.md says what else)": given,
    }
    texts = []
    for title, cells in parts.items():
        width = max(map(len, cells))
        texts.append("\n".join([title, *(f"  {name:<{width}}  {x}" for name, x in cells.items())]))
    return "\n\n".join(texts)


def as_table(estimates: Sequence[Estimate]) -> str:
    """Markdown, a row an estimate."""
    rows = [row(estimate) for estimate in estimates]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(cells.values()) for cells in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def row(estimate: Estimate) -> dict[str, str]:
    """By column: times only for rates that are given. A peak above the GPU's memory is marked."""
    moment, num_bytes = peak(estimate.memory)
    given, sampled = estimate.assumptions, estimate.sampled
    is_too_much = given.num_gpus and num_bytes > given.gpu_gib * GIB
    phases = ("rollouts", "values", "prefixes")
    sampling = sum(estimate.seconds.get(phase, 0.0) for phase in phases)
    everything = sum(estimate.seconds.values())
    shown = {
        "config": estimate.name,
        "GPUs": str(given.num_gpus),
        "peak, GiB": digits(num_bytes / GIB) + (" (too much)" if is_too_much else ""),
        "at": moment,
        "sequences at once": digits(estimate.sequences_at_once),
        "states": digits(sampled["num_states"]),
        "continuations": digits(sampled["num_continuations"]),
        "sampled tokens, millions": digits((sampled["rollouts"] + sampled["continuations"]) / 1e6),
    }
    if given.tokens_per_s is not None:
        shown["sampling, s"] = digits(sampling)
    if given.train_tflops is not None:
        shown["training, s"] = digits(everything - sampling)
    if None not in (given.tokens_per_s, given.train_tflops):
        shown["iteration, s"] = digits(everything)
        shown["iteration, min"] = digits(everything / 60)
    return shown


def digits(x: float) -> str:
    """`digits(1234.5)` is "1,234" and `digits(0.012345)` "0.0123"."""
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"
