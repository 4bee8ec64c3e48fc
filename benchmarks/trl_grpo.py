"""Seconds of a GRPO iteration by TRL's `GRPOTrainer` ÷ seconds of the same iteration by us.

Both have the model, the prompts (the same token ids), the samples per prompt, the optimizer's steps
and settings, the precision and the KL to the starting policy in common. TRL runs in a separate
environment (`.venv-trl`, made at first use by `benchmarks/trl/setup.sh`) over the same torch,
transformers and vLLM. Each side is a process that has loaded everything and runs an iteration on
command, in turns. The others wait without using a core, and the first iteration is not counted.

Responses end where the policy ends them. The ratio is of seconds per sampled token, as the sides
draw differently and so sample differently many.

TRL gets the micro-batches that serve it best (`search`; ours where `--quick`). The size is the
fastest in one iteration, among a whole minibatch, a half and ours.

TRL samples in two ways: with `generate` of transformers (`trl`), and with a colocated vLLM
(`trl_vllm`); we do with vLLM (`ours`) and with the transformers engine (`ours_shared`). TRL leaves
vLLM's precision to vLLM, which would take bfloat16; it gets the config's
(`run_trl.set_engine_dtype`). And it fails on a CPU as TRL is, because its `load_weights` meets
weights that vLLM has repacked; here that one function is replaced (`run_trl.repair_sync`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

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
NUM_WARMUPS = 1
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
        description = describe(config, NUM_WARMUPS + options.num_runs, folder)
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
            iterations = measure(workers, options.num_runs)
            versions = {name: v for worker in workers for name, v in worker.versions.items()}
    report(
        NAME,
        options,
        options.num_runs,
        ratios(iterations),
        {
            **figures(config, iterations),
            "trl_micro_batch_size": trl_size,
            "trl_s_per_token_by_micro_batch_size": searched,
            "missing": missing,
            "versions": versions,
        },
    )


def micro_batch_sizes(config: TrainConfig) -> list[int]:
    """Sizes to try in TRL: a minibatch of 64 in micro-batches of 64, 32, and of ours."""
    batch_size, ours = config.optimization.batch_size, config.optimization.micro_batch_size
    parts = {batch_size // n for n in (1, 2) if batch_size % n == 0}
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
    """Seconds per token of TRL's iteration by size of micro-batch; or why it failed."""
    found: dict[int, float | str] = {}
    with ExitStack() as stack:
        workers = {size: stack.enter_context(start(size)) for size in sizes}
        for worker in workers.values():
            with suppress(RuntimeError):
                worker.ready()
        for size, worker in workers.items():
            try:
                worker.iterate()
                found[size] = cost(worker.iterate())
            except RuntimeError as error:  # too large for the memory, as a rule
                found[size] = str(error)
    return found


def cost(message: Message) -> float:
    """Seconds per sampled token of an iteration."""
    return float(message["seconds"] / message["tokens"])


def fastest(searched: Mapping[int, float | str], default: int) -> int:
    """`fastest({8: 41.2, 4: 45.0, 16: "out of memory"}, 4)` is 8; with nothing found it is 4."""
    seconds = {size: s for size, s in searched.items() if not isinstance(s, str)}
    return min(seconds, key=lambda size: seconds[size], default=default)


def measure(workers: Sequence[Worker], num_runs: int) -> dict[str, list[Message]]:
    """Each worker's report of its measured iterations."""
    messages: dict[str, list[Message]] = {worker.name: [] for worker in workers}
    for worker in workers:
        for _ in range(NUM_WARMUPS):
            worker.iterate()

    def run(worker: Worker) -> float:
        messages[worker.name].append(worker.iterate())
        return cost(messages[worker.name][-1])

    alternate(num_runs, {worker.name: partial(run, worker) for worker in workers})
    return messages


def ratios(iterations: dict[str, list[Message]]) -> dict[str, dict[str, float]]:
    """TRL's costs ÷ ours. With 6 s of ours for 300 tokens, and TRL's 12 s for 400: 1.5."""
    costs = {name: [cost(m) for m in messages] for name, messages in iterations.items()}
    return {
        f"{name} / {ours}, natural lengths": ratio(costs[name], costs[ours])
        for ours in ("ours", "ours_shared")
        for name in costs
        if name.startswith("trl") and ours in costs
    }


def figures(config: TrainConfig, iterations: dict[str, list[Message]]) -> dict[str, Any]:
    """Medians of the seconds by phase, and all messages."""
    medians: dict[str, float] = {}
    for name, messages in iterations.items():
        medians[f"{name}_s"] = median(m["seconds"] for m in messages)
        for phase in PHASES:
            medians[f"{name}_{phase}_s"] = median(m["phases"][phase] for m in messages)
        medians[f"{name}_tokens"] = median(m["tokens"] for m in messages)
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
