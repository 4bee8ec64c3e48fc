"""The options of `vineppo estimate`: what no config says. Imports nothing heavy."""

import argparse
from pathlib import Path

from vineppo.errors import UserError


def add_options(command: argparse.ArgumentParser) -> None:
    """Their defaults are stated by `--help`, and their values among the printed assumptions."""
    option = command.add_argument
    option("--num-gpus", type=int, default=1, metavar="N", help="ranks; 0: a CPU (default: 1)")
    option("--gpu-gib", type=float, default=80.0, metavar="X", help="of one GPU (default: 80)")
    option("--tokens-per-s", type=float, metavar="X", help="what one rank's engine samples")
    option("--train-tflops", type=float, metavar="X", help="what one rank computes in all else")
    option("--prompt-tokens", type=float, default=100.0, metavar="X", help="mean (default: 100)")
    option(
        "--response-share",
        type=float,
        default=0.25,
        metavar="X",
        help="mean response length as a share of the longest (default: 0.25)",
    )
    option("--steps", type=float, default=8.0, metavar="X", help="mean of a response (default: 8)")
    option("--model-config", type=Path, metavar="FILE", help="HF config.json for model.path")
    option("--json", action="store_true", help="print every figure as JSON")


def check_options(options: argparse.Namespace) -> None:
    """Raises `UserError` for a number that makes no sense."""
    for name, least in (("num_gpus", 0), ("prompt_tokens", 1), ("steps", 1)):
        value = getattr(options, name)
        if not value >= least:
            raise UserError(f"{_flag(name)} must be at least {least}, got {value:g}")
    for name in ("gpu_gib", "tokens_per_s", "train_tflops", "response_share"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            raise UserError(f"{_flag(name)} must be above 0, got {value:g}")
    if options.response_share > 1:
        raise UserError(f"--response-share must be at most 1, got {options.response_share:g}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
