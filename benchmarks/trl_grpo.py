"""Seconds of a GRPO iteration by TRL's `GRPOTrainer` ÷ seconds of the same iteration by us.

Both have the model, the prompts (the same token ids), the samples per prompt, the optimizer's steps
and settings, the precision and the KL to the starting policy in common. TRL runs in a separate
environment (`.venv-trl`, made at first use by `benchmarks/trl/setup.sh`) over the same torch,
transformers and vLLM. Each side is a process that has loaded everything and runs an iteration on
command, in turns. The others wait without using a core, and the first iteration is not counted.

There are two kinds of iterations. In "equal" ones no id ends a response, so that both sides sample
exactly `sampling.max_tokens` of each. In "natural" ones responses end where the policy ends them.
Their ratio is of seconds per sampled token, as the sides sample differently many.

A last iteration of equal lengths is profiled: seconds by phase and kind of operation.

TRL gets the micro-batches that serve it best (`search`; ours where `--quick`). The size is the
fastest in an iteration of equal lengths, among a whole minibatch, a half, a quarter and ours.

TRL samples in two ways: with `generate` of transformers (`trl`), and with a colocated vLLM
(`trl_vllm`); we do with vLLM (`ours`) and with the transformers engine (`ours_shared`). TRL leaves
vLLM's precision to vLLM, which would take bfloat16; it gets the config's
(`run_trl.set_engine_dtype`). And it fails on a CPU as TRL is, because its `load_weights` meets
weights that vLLM has repacked; here that one function is replaced (`run_trl.repair_sync`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.harness import Options, alternate, parse_options, ratio, report, run_main
from benchmarks.trl.protocol import Message, Worker
from benchmarks.trl.translation import describe, grpo_arguments, num_updates
from benchmarks.trl.workers import open_workers, set_up, start_worker
from benchmarks.workload import (
    benchmark_config,
    demo_assignments,
    describe_workload,
    model_assignments,
)
from vineppo.config.schema import TrainConfig
from vineppo.engine.vllm_config import VllmConfig

NAME = "trl_grpo"
CONFIGS = Path(__file__).parent / "trl"
KINDS = {"equal": False, "natural": True}  # whether an id may end a response
NUM_WARMUPS = 1
NUM_SEARCH_RUNS = 3
PHASES = ("generation", "scoring", "update", "sync")


def main() -> None:
    options = parse_options(
        NAME, "GRPO iteration: TRL's seconds ÷ ours (puts TRL, 4 GB, into .venv-trl)"
    )
    set_up()
    with TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        config = grpo_config(options, folder)
        assert isinstance(config.engine, VllmConfig), "TRL samples with vLLM"
        description = describe(config, num_iterations(options.num_runs), folder)
        cpu_kv_cache_gib = config.engine.cpu_kv_cache_gib

        def spec(micro_batch_size: int) -> Path:
            return write_spec(description, config, micro_batch_size, folder)

        size = config.optimization.micro_batch_size
        searched: dict[int, float | str] = {}
        if not options.is_quick:
            searched = search(
                micro_batch_sizes(config),
                lambda candidate: start_worker("trl", spec(candidate), cpu_kv_cache_gib),
            )
        trl_size = fastest(searched, size)
        with open_workers(spec(size), spec(trl_size), cpu_kv_cache_gib) as (workers, missing):
            iterations = {
                kind: measure(workers, options.num_runs, has_stops)
                for kind, has_stops in KINDS.items()
            }
            operations = {
                worker.name: worker.iterate(has_stops=False, is_profiled=True)["operations"]
                for worker in workers
            }
    show(operations)
    report(
        NAME,
        options,
        options.num_runs,
        ratios(iterations),
        {
            **figures(config, iterations),
            "trl_micro_batch_size": trl_size,
            "trl_micro_batch_sizes_s": searched,
            "operations_s": operations,
            "missing": missing,
        },
    )


def num_iterations(num_runs: int) -> int:
    """Iterations a side: the kinds' warm-ups and measured ones, and the one that is profiled."""
    return len(KINDS) * (NUM_WARMUPS + num_runs) + 1


def micro_batch_sizes(config: TrainConfig) -> list[int]:
    """Sizes to try in TRL: a minibatch of 64 in micro-batches of 64, 32, 16, and of ours."""
    batch_size, ours = config.optimization.batch_size, config.optimization.micro_batch_size
    parts = {batch_size // n for n in (1, 2, 4) if batch_size % n == 0}
    return sorted(parts | {ours}, reverse=True)


def write_spec(
    description: dict[str, Any], config: TrainConfig, micro_batch_size: int, folder: Path
) -> Path:
    """The description with TRL's arguments for other micro-batches."""
    optimization = replace(config.optimization, micro_batch_size=micro_batch_size)
    arguments = grpo_arguments(replace(config, optimization=optimization))
    path = folder / f"spec_{micro_batch_size}.json"
    path.write_text(json.dumps({**description, "arguments": arguments}))
    return path


def search(sizes: Sequence[int], start: Callable[[int], Worker]) -> dict[int, float | str]:
    """Median seconds of TRL's iteration by size of micro-batch, in turns; or why it failed."""
    failures: dict[int, float | str] = {}
    with ExitStack() as stack:
        runs: dict[str, Callable[[], float]] = {}
        for size in sizes:
            worker = stack.enter_context(start(size))
            try:
                worker.ready()
                worker.iterate(has_stops=False)
            except RuntimeError as error:  # too large for the memory, as a rule
                failures[size] = str(error)
                continue
            runs[str(size)] = partial(equal_seconds, worker)
        measured = alternate(NUM_SEARCH_RUNS, runs)
    return failures | {int(name): median(seconds) for name, seconds in measured.items()}


def equal_seconds(worker: Worker) -> float:
    return worker.iterate(has_stops=False)["seconds"]


def fastest(searched: Mapping[int, float | str], default: int) -> int:
    """`fastest({8: 41.2, 4: 45.0, 16: "out of memory"}, 4)` is 8; with nothing found it is 4."""
    seconds = {size: s for size, s in searched.items() if not isinstance(s, str)}
    return min(seconds, key=lambda size: seconds[size], default=default)


def show(operations: dict[str, dict[str, dict[str, float]]]) -> None:
    """Prints the seconds of each worker by phase and kind of operation."""
    table = Table("phase", "seconds under the profiler", *operations)
    for phase in PHASES:
        by_worker = [seconds.get(phase, {}) for seconds in operations.values()]
        for kind in dict.fromkeys(kind for seconds in by_worker for kind in seconds):
            table.add_row(phase, kind, *(f"{seconds.get(kind, 0.0):.2f}" for seconds in by_worker))
    Console().print(table)


def measure(workers: Sequence[Worker], num_runs: int, has_stops: bool) -> dict[str, list[Message]]:
    """Each worker's report of its measured iterations."""
    messages: dict[str, list[Message]] = {worker.name: [] for worker in workers}
    for worker in workers:
        for _ in range(NUM_WARMUPS):
            worker.iterate(has_stops)

    def run(worker: Worker) -> float:
        messages[worker.name].append(worker.iterate(has_stops))
        return messages[worker.name][-1]["seconds"]

    alternate(num_runs, {worker.name: partial(run, worker) for worker in workers})
    return messages


def ratios(iterations: dict[str, dict[str, list[Message]]]) -> dict[str, dict[str, float]]:
    """TRL's costs ÷ ours. Raises `RuntimeError` where the work was to be equal and was not.

    With 6 s of ours for 300 tokens, and TRL's 12 s for the same 300: 2; were it 400, 1.5.
    """
    tokens = {m["tokens"] for messages in iterations["equal"].values() for m in messages}
    if len(tokens) != 1:
        raise RuntimeError(f"all must sample equally many tokens, got {sorted(tokens)}")
    costs = {
        (kind, name): [m["seconds"] / m["tokens"] for m in messages]
        for kind, by_name in iterations.items()
        for name, messages in by_name.items()
    }
    return {
        f"{name} / {ours}, {kind} lengths": ratio(costs[kind, name], costs[kind, ours])
        for ours in ("ours", "ours_shared")
        for kind, name in costs
        if name.startswith("trl") and (kind, ours) in costs
    }


def figures(config: TrainConfig, iterations: dict[str, dict[str, list[Message]]]) -> dict[str, Any]:
    """Medians of the seconds by phase, and all messages."""
    medians: dict[str, float] = {}
    for kind, by_name in iterations.items():
        for name, messages in by_name.items():
            medians[f"{kind}_{name}_s"] = median(m["seconds"] for m in messages)
            for phase in PHASES:
                if phase in messages[0]["phases"]:
                    seconds = [m["phases"][phase] for m in messages]
                    medians[f"{kind}_{name}_{phase}_s"] = median(seconds)
            medians[f"{kind}_{name}_tokens"] = median(m["tokens"] for m in messages)
    return {
        **medians,
        "workload": describe_workload(config),
        "updates": num_updates(config),
        "iterations": iterations,
    }


def grpo_config(options: Options, folder: Path) -> TrainConfig:
    """The checked config; a real model's problems are written to `folder`."""
    assignments = []
    if options.is_quick:
        num_prompts = 4 if options.model is None else 2
        assignments = [
            f"rollouts.num_prompts={num_prompts}",
            "rollouts.num_samples=4",
            f"optimization.batch_size={2 * num_prompts}",
            f"optimization.micro_batch_size={2 * num_prompts}",
            "sampling.max_tokens=16",
        ]
    if options.model is None:
        assignments += demo_assignments()
    else:
        assignments += model_assignments(options.model, folder)
    return benchmark_config(CONFIGS, options, assignments)


if __name__ == "__main__":
    run_main(main)
