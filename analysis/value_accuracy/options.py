"""The options of `value-accuracy`, and what they mean once they are checked."""

import argparse
from pathlib import Path

from analysis.value_accuracy.predictions import Wanted
from analysis.value_accuracy.predictors import split_name
from analysis.value_accuracy.settings import Settings
from vineppo.errors import UserError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--truth",
        type=Path,
        metavar="DIR",
        help="the --out of ground-truth; default: OUT, then where ground-truth puts it by default",
    )
    parser.add_argument(
        "--predictors",
        metavar="NAME,…",
        help="critic, mc_train_9, mc_9, group_mean, group_mean_others, constant; "
        "default: all that a run has",
    )
    parser.add_argument(
        "--continuations",
        default="1,3,9",
        metavar="K,…",
        help="the K of mc_K and mc_train_K where --predictors does not name them, besides that of "
        "the training; a table has its own; default: 1,3,9",
    )
    parser.add_argument(
        "--threshold", type=float, default=0.1, help="accuracy: |error| at most this; default: 0.1"
    )
    parser.add_argument("--level", type=float, default=0.95, help="of intervals; default: 0.95")
    parser.add_argument(
        "--num-resamples", type=int, default=2000, help="of problems, by interval; default: 2000"
    )
    parser.add_argument(
        "--num-refits",
        type=int,
        default=500,
        help="the same where each is ranked or fitted anew: Spearman, scores, bands; default: 500",
    )
    parser.add_argument("--seed", type=int, default=0, help="which problems are resampled")


def wanted(predictors: str | None, continuations: str) -> Wanted:
    """`("critic,mc_9", "1,3,9")` wants critic and mc_9 alone. Raises `UserError`."""
    try:
        numbers = tuple(int(part) for part in continuations.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise UserError(
            f"--continuations must be whole numbers from 1 with commas, got {continuations!r}"
        )
    if predictors is None:
        return Wanted(None, numbers)
    names = tuple(dict.fromkeys(name.strip() for name in predictors.split(",")))
    for name in names:
        split_name(name)
    return Wanted(names, numbers)


def checked(settings: Settings) -> Settings:
    """The settings. Raises `UserError` naming the option that cannot be."""
    if not 0 <= settings.threshold <= 1:
        raise UserError(f"--threshold must be in 0..1, got {settings.threshold}")
    if not 0 < settings.level < 1:
        raise UserError(f"--level must be between 0 and 1, got {settings.level}")
    for option, number, least in (
        ("--num-resamples", settings.num_resamples, 1),
        ("--num-refits", settings.num_refits, 1),
        ("--seed", settings.seed, 0),
    ):
        if number < least:
            raise UserError(f"{option} must be at least {least}, got {number}")
    return settings
