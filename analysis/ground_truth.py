"""`ground-truth`: the values of a run's states by many fresh continuations, policy by policy."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from analysis import figures, options
from analysis.summary import write_summary
from analysis.truth import ANALYSIS, FOLDER, TRUTH_SCHEMA, TruthState, check_names, read_truth

NUM_BINS = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_checkpoints(parser)
    options.add_numbers(
        parser,
        num_states=(512, "step boundaries a checkpoint"),
        num_samples=(256, "continuations of a state"),
        num_draws=(32, "further ones, for the predictions of MC(K)"),
        seed=(0, "which states, which continuations"),
    )


def run(paths: list[Path], out: Path, checkpoints: str, **settings: int) -> list[Path]:
    """Writes a table a run and checkpoint, a figure and a summary.

    What is there already is kept; what a kill interrupted goes on.
    """
    from analysis.sampling.policies import choose_checkpoints, make_tables
    from analysis.sampling.returns import truth_rows

    options.check_least(settings, num_states=1, num_samples=2, num_draws=0)
    check_names(paths)
    chosen = choose_checkpoints(paths, checkpoints, out, FOLDER, settings, with_rollouts=True)
    tables = {path: read_truth(path) for path in make_tables(chosen, TRUTH_SCHEMA, truth_rows)}
    return [*tables, *_figure(out, tables), write_summary(out, ANALYSIS, _summary(tables))]


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


def _summary(tables: dict[Path, list[TruthState]]) -> dict[str, Any]:
    summary = {}
    for path, states in tables.items():
        inner = [state for state in states if not state.is_query]
        values_N = np.array([state.value for state in inner])
        summary[f"{path.parent.name}/{path.stem}"] = {
            "num_states": len(inner),
            "num_query_states": len(states) - len(inner),
            "num_problems": len({state.problem_id for state in states}),
            "num_samples": states[0].num_samples,
            "rollout_iteration": states[0].rollout_iteration,
            "value_mean": float(np.mean(values_N)),
            "decided_frac": float(np.mean((values_N == 0) | (values_N == 1))),
            "num_tokens": sum(state.num_tokens for state in states),
        }
    return summary
