"""`ground-truth`: the values of a run's states by many fresh continuations, policy by policy."""

import argparse
from pathlib import Path

import numpy as np

from analysis import figures, options
from analysis.truth import FOLDER, TRUTH_SCHEMA, TruthState, check_names, read_truth

NUM_BINS = 16


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
    """Writes a table a run and checkpoint and a figure.

    What is there already is kept; what a kill interrupted goes on.
    """
    from analysis.sampling.policies import choose_checkpoints, make_tables
    from analysis.sampling.returns import truth_rows

    options.check_least(settings, num_states=1, num_samples=2, num_draws=0)
    check_names(paths)
    chosen = choose_checkpoints(paths, checkpoints, out, FOLDER, settings, with_rollouts=True)
    tables = {path: read_truth(path) for path in make_tables(chosen, TRUTH_SCHEMA, truth_rows)}
    return [*tables, *_figure(out, tables)]


def _figure(out: Path, tables: dict[Path, list[TruthState]]) -> list[Path]:
    """How the true values are spread, and where in the response they are which."""
    with figures.panels(1, 2) as (figure, axes):
        names = [f"{p.parent.name}, iteration {s[0].checkpoint}" for p, s in tables.items()]
        styles, labels = figures.method_styles(names), figures.method_labels(names)
        for name, states in zip(names, tables.values(), strict=True):
            inner = [state for state in states if not state.is_query]
            style = {key: value for key, value in styles[name].items() if key != "marker"}
            values_N = np.array([state.value for state in inner])
            share, edges = np.histogram(values_N, NUM_BINS, (0, 1))
            axes[0].stairs(share / len(inner), edges, label=labels[name], **style)
            position_N = np.array([state.prefix_length / state.response_length for state in inner])
            tenth_N = np.minimum((position_N * 10).astype(int), 9)
            tenths = np.unique(tenth_N)
            means = [np.mean(values_N[tenth_N == tenth]) for tenth in tenths]
            axes[1].plot((tenths + 0.5) / 10, means, **style)
        axes[0].set(xlabel="true value of a state", ylabel="share of states")
        axes[1].set(xlabel="position in the response", ylabel="mean true value", ylim=(0, 1))
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "ground_truth")
