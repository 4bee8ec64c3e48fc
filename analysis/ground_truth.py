"""`ground-truth`: the values of a run's states by many fresh continuations, policy by policy."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from analysis import figures
from analysis.summary import write_summary
from analysis.truth import (
    ANALYSIS,
    FOLDER,
    TRUTH_SCHEMA,
    TruthState,
    check_names,
    counts,
    read_truth,
)
from vineppo.errors import UserError

NUM_BINS = 16


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoints", default="last", metavar="all|last|ends|spaced:N|N,N…", help="default: last"
    )
    parser.add_argument("--num-states", type=int, default=512, help="step boundaries a checkpoint")
    parser.add_argument("--num-samples", type=int, default=256, help="continuations of a state")
    parser.add_argument(
        "--num-draws", type=int, default=32, help="further ones, for the predictions of MC(K)"
    )
    parser.add_argument("--seed", type=int, default=0, help="which states, which continuations")


def run(
    paths: list[Path],
    out: Path,
    checkpoints: str,
    num_states: int,
    num_samples: int,
    num_draws: int,
    seed: int,
) -> None:
    """Writes a table a run and checkpoint, a figure and a summary; prints their paths.

    What is there already is kept; what a kill interrupted goes on.
    """
    from analysis.sampling.policies import choose_checkpoints, make_tables
    from analysis.sampling.returns import truth_rows

    if num_states < 1 or num_samples < 2 or num_draws < 0:
        raise UserError(
            "--num-states must be at least 1, --num-samples 2 and --num-draws 0, got "
            f"{num_states}, {num_samples} and {num_draws}"
        )
    check_names(paths)
    settings = {
        "num_states": num_states,
        "num_samples": num_samples,
        "num_draws": num_draws,
        "seed": seed,
    }
    chosen = choose_checkpoints(paths, checkpoints, out, FOLDER, settings, with_rollouts=True)
    tables = {path: read_truth(path) for path in make_tables(chosen, TRUTH_SCHEMA, truth_rows)}
    for written in [*tables, *_figure(out, tables), write_summary(out, ANALYSIS, _summary(tables))]:
        print(written)


def _figure(out: Path, tables: dict[Path, list[TruthState]]) -> list[Path]:
    """How the true values are spread, and where in the response they are which."""
    with figures.panels(1, 2) as (figure, axes):
        for index, (path, states) in enumerate(tables.items()):
            inner = [state for state in states if not state.is_query]
            style = figures.line_style(index)
            label = f"{path.parent.name}, iteration {states[0].checkpoint}"
            values_N = [state.value for state in inner]
            share, edges = np.histogram(values_N, NUM_BINS, (0, 1))
            axes[0].stairs(share / len(inner), edges, label=label, **style)
            position_N = np.array([state.prefix_length / state.response_length for state in inner])
            place_N = np.minimum((position_N * 10).astype(int), 9)
            mean = [np.mean(np.array(values_N)[place_N == i]) for i in np.unique(place_N)]
            axes[1].plot((np.unique(place_N) + 0.5) / 10, mean, **style)
        axes[0].set_xlabel("true value of a state")
        axes[0].set_ylabel("share of states")
        axes[1].set_xlabel("position in the response")
        axes[1].set_ylabel("mean true value")
        axes[1].set_ylim(0, 1)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "ground_truth")


def _summary(tables: dict[Path, list[TruthState]]) -> dict[str, Any]:
    summary = {}
    for path, states in tables.items():
        inner = [state for state in states if not state.is_query]
        num_correct_N, num_samples_N = counts(inner)
        summary[f"{path.parent.name}/{path.stem}"] = {
            "num_states": len(inner),
            "num_query_states": len(states) - len(inner),
            "num_problems": len({state.problem_id for state in states}),
            "num_samples": states[0].num_samples,
            "rollout_iteration": states[0].rollout_iteration,
            "value_mean": float(np.mean(num_correct_N / num_samples_N)),
            "decided_frac": float(np.mean((num_correct_N == 0) | (num_correct_N == num_samples_N))),
            "num_tokens": sum(state.num_tokens for state in states),
        }
    return summary
