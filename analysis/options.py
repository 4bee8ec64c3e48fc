"""Options that several analyses have, and the checks of their numbers."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from vineppo.errors import UserError

ITERATIONS = "all|last|ends|spaced:N|N,N…"  # as `frames.choose_iterations` takes them


def add_checkpoints(parser: argparse.ArgumentParser, default: str = "last") -> None:
    parser.add_argument(
        "--checkpoints", default=default, metavar=ITERATIONS, help="whose policies are sampled"
    )


def add_numbers(parser: argparse.ArgumentParser, **options: tuple[int | float, str]) -> None:
    """`num_states=(512, "states a checkpoint")` is an option --num-states with its default."""
    for name, (default, text) in options.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, help=text)


def add_truth(parser: argparse.ArgumentParser) -> None:
    text = "the --out of ground-truth; without: OUT, then where ground-truth puts its tables"
    parser.add_argument("--truth", type=Path, metavar="DIR", help=text)


def check_least(settings: Mapping[str, int | None], **least: int) -> None:
    """Refuses a number below the least that it may be; None is none (`UserError`)."""
    for name, smallest in least.items():
        number = settings[name]
        if number is not None and number < smallest:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option} must be at least {smallest}, got {number}")


def parse_continuations(text: str, option: str = "--continuations") -> tuple[int, ...]:
    """`"1,3,9"` is (1, 3, 9), the K of MC(K) or other numbers. Raises `UserError`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[1-9]\d*", part) for part in parts):
        raise UserError(f"{option} must be whole numbers from 1 with commas, got {text!r}")
    return tuple(sorted(set(map(int, parts))))
