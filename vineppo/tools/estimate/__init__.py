"""`vineppo estimate`: what a config needs of memory and time, before anything is started.

Here are its options: what no config says. Nothing heavy is imported.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path


def add_options(command: argparse.ArgumentParser) -> None:
    """The output repeats their values among the assumptions."""

    def option(flag: str, default: float | None, low: float, high: float, text: str) -> None:
        suffix = "" if default is None else f" (default: {default:g})"
        command.add_argument(
            flag, type=number(low, high), default=default, metavar="X", help=text + suffix
        )

    command.add_argument(
        "--num-gpus",
        type=counts,
        default=[1],
        metavar="N,N…",
        help="ranks, each with a GPU; 0: a CPU (default: 1)",
    )
    option("--gpu-gib", 80, 1e-3, math.inf, "of one GPU")
    option("--tokens-per-s", None, 1e-3, math.inf, "what one rank's engine samples")
    option("--train-tflops", None, 1e-12, math.inf, "what one rank computes in all else")
    option("--prompt-tokens", 100, 1, math.inf, "mean")
    option("--response-share", 0.25, 1e-6, 1, "mean response length as a share of the longest")
    option("--steps", 8, 1, math.inf, "mean of a response")
    command.add_argument(
        "--model-config", type=Path, metavar="FILE", help="HF config.json for model.path"
    )
    command.add_argument("--json", action="store_true", help="print every figure as JSON")


def counts(text: str) -> list[int]:
    return [int(number(0, math.inf)(count)) for count in text.split(",")]


def number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        if not low <= float(text) <= high:
            bound = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"must be {bound}, got {text}")
        return float(text)

    return parse
