"""`vineppo estimate`: what a config needs of memory and time, before anything is started.

Here are its options: what no config says. Nothing heavy is imported.
"""

import argparse
from pathlib import Path

from vineppo.errors import UserError


def add_options(command: argparse.ArgumentParser) -> None:
    """Their defaults are stated by `--help`, and their values among the printed assumptions."""

    def option(flag: str, default: float | None, help_text: str) -> None:
        suffix = "" if default is None else f" (default: {default:g})"
        command.add_argument(
            flag, type=float, default=default, metavar="X", help=help_text + suffix
        )

    command.add_argument(
        "--num-gpus",
        type=counts,
        default=[1],
        metavar="N,N…",
        help="ranks, each with a GPU; 0: a CPU (default: 1)",
    )
    option("--gpu-gib", 80.0, "of one GPU")
    option("--tokens-per-s", None, "what one rank's engine samples")
    option("--train-tflops", None, "what one rank computes in all else")
    option("--prompt-tokens", 100.0, "mean")
    option("--response-share", 0.25, "mean response length as a share of the longest")
    option("--steps", 8.0, "mean of a response")
    command.add_argument(
        "--model-config", type=Path, metavar="FILE", help="HF config.json for model.path"
    )
    command.add_argument("--json", action="store_true", help="print every figure as JSON")


def counts(text: str) -> list[int]:
    return [int(count) for count in text.split(",")]


def check_options(options: argparse.Namespace) -> None:
    """Raises `UserError` for a number that makes no sense."""
    for count in options.num_gpus:
        _check("num_gpus", count, count >= 0, "at least 0")
    for name in ("prompt_tokens", "steps"):
        value = getattr(options, name)
        _check(name, value, value >= 1, "at least 1")
    for name in ("gpu_gib", "tokens_per_s", "train_tflops", "response_share"):
        value = getattr(options, name)
        _check(name, value, value is None or value > 0, "above 0")
    share = options.response_share
    _check("response_share", share, share <= 1, "at most 1")


def _check(name: str, value: float, is_sound: bool, bound: str) -> None:
    if not is_sound:
        raise UserError(f"--{name.replace('_', '-')} must be {bound}, got {value:g}")
