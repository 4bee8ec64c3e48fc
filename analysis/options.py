"""Options that several analyses have, one vocabulary for all, and the checks of their numbers."""

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

from vineppo.errors import UserError

ITERATIONS = "all|last|ends|spaced:N|N,N…"  # as `frames.choose_iterations` takes them
# Options by the names that settings have beside stored tables, where these differ.
OPTIONS = {
    "num_problems": "--problems",
    "num_states": "--states",
    "num_samples": "--samples",
    "num_draws": "--draws",
    "num_alternatives": "--alternatives",
    "num_proposals": "--proposals",
    "num_iterations": "--iterations",
    "num_steps": "--steps",
    "sample_values": "--continuations",
}


def option_of(name: str) -> str:
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def add_checkpoints(parser: argparse.ArgumentParser, default: str = "last") -> None:
    parser.add_argument(
        "--checkpoints",
        default=default,
        metavar=ITERATIONS,
        help="Use the policies of these iterations.",
    )


def add_numbers(parser: argparse.ArgumentParser, **numbers: tuple[int | float, str]) -> None:
    """`num_states=(512, "Sample …")` is an option --states with its default."""
    for name, (default, text) in numbers.items():
        parser.add_argument(
            option_of(name), dest=name, type=type(default), default=default, metavar="N", help=text
        )


def add_continuations(parser: argparse.ArgumentParser, default: str, text: str) -> None:
    parser.add_argument("--continuations", type=numbers, default=default, metavar="K,K…", help=text)


def add_truth(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--truth",
        nargs="+",
        action="extend",
        default=[],
        type=Path,
        metavar="DIR",
        help="Read the ground truth in these folders instead of OUT and the runs' own.",
    )


def check_least(settings: Mapping[str, int | None], **least: int) -> None:
    """Refuses a number below the least that it may be; None is none (`UserError`)."""
    for name, smallest in least.items():
        number = settings[name]
        if number is not None and number < smallest:
            raise UserError(f"{option_of(name)} must be at least {smallest}, got {number}")


def numbers(text: str) -> tuple[int, ...]:
    """`"1,3,9"` is (1, 3, 9), the K of MC(K) or others; the type of an option."""
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f"must be whole numbers from 1 with commas, got {text!r}")
    return tuple(sorted(set(map(int, text.split(",")))))
