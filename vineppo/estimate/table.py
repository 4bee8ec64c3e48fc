"""Estimates of several configs as a Markdown table: `python -m vineppo.estimate.table --help`."""

import argparse
import sys

from vineppo.errors import UserError
from vineppo.estimate.assemble import Estimate
from vineppo.estimate.memory import peak
from vineppo.estimate.options import add_options
from vineppo.estimate.report import GIB, digits, estimates

COLUMNS = (
    "config", "GPUs", "peak, GiB", "at", "sequences at once", "sampled tokens, millions",
    "sampling, s", "training, s", "iteration, s",
)  # fmt: skip
OF_SAMPLING = ("rollouts", "values", "prefixes")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vineppo.estimate.table", description=__doc__)
    parser.add_argument("configs", nargs="+", metavar="CONFIG.jsonnet")
    parser.add_argument("--gpus", default="1", metavar="N,N…", help="a row for each (default: 1)")
    parser.add_argument("--set", action="append", default=[], dest="assignments")
    add_options(parser)
    try:
        print("\n".join(markdown(of_all(parser.parse_args()))))
    except UserError as error:
        print(f"vineppo: {error}", file=sys.stderr)
        return 2
    return 0


def of_all(options: argparse.Namespace) -> list[Estimate]:
    """One for every config and number of GPUs, in that order."""
    counts = options.gpus.split(",")
    if not all(count.isdigit() for count in counts):
        raise UserError(f"--gpus must be numbers with commas, got {options.gpus}")
    gpus = [int(count) for count in counts]
    rows: list[Estimate] = []
    for config in options.configs:
        rows += estimates(config, options, gpus)
    return rows


def markdown(estimated: list[Estimate]) -> list[str]:
    """The table's lines."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *map(row, estimated)]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def row(estimate: Estimate) -> tuple[str, ...]:
    """A peak above the GPU's memory is marked, and so is a cache without room for one sequence."""
    moment, num_bytes = peak(estimate.memory)
    is_too_much = estimate.machine.num_gpus and num_bytes > estimate.machine.gpu_gib * GIB
    sampled = estimate.sampled
    tokens = 0.0 if sampled is None else (sampled.rollouts + sampled.continuations) / 1e6
    sampling = sum(estimate.seconds.get(phase, 0.0) for phase in OF_SAMPLING)
    everything = sum(estimate.seconds.values())
    return (
        estimate.name,
        str(estimate.machine.num_gpus),
        digits(num_bytes / GIB) + (" (too much)" if is_too_much else ""),
        moment,
        digits(estimate.cache.num_running),
        digits(tokens),
        digits(sampling),
        digits(everything - sampling),
        digits(everything),
    )


if __name__ == "__main__":
    sys.exit(main())
