"""`ground-truth`: the values of a run's states by many fresh continuations, policy by policy."""

import argparse
from pathlib import Path

from analysis import options
from analysis.truth import FOLDER, TRUTH_SCHEMA, check_names


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser)
    options.add_numbers(
        parser,
        num_states=(512, "Draw so many step boundaries of a checkpoint, and the queries."),
        num_samples=(256, "Sample so many continuations of each state for its true value."),
        num_draws=(32, "Sample so many further ones, from which MC(K) predicts."),
        seed=(0, "Seed the choice of states and what is sampled."),
    )


def run(paths: list[Path], out: Path, checkpoints: str, **settings: int) -> list[Path]:
    """Writes a table a run and checkpoint; keeps existing ones and resumes interrupted ones."""
    from analysis.sampling.policies import choose_checkpoints, make_tables
    from analysis.sampling.returns import truth_rows

    options.check_least(settings, num_states=1, num_samples=2, num_draws=0)
    check_names(paths)
    chosen = choose_checkpoints(paths, checkpoints, out, FOLDER, settings, with_rollouts=True)
    return make_tables(chosen, TRUTH_SCHEMA, truth_rows)
