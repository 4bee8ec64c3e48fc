"""The ground truth of the states of a run's rollouts, found in `ground-truth`'s tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.truth import TruthState, find_truth, read_truth
from vineppo.errors import UserError

# A state: the problem, and the tokens of a response up to a step.
Prefix = tuple[str, tuple[int, ...]]


def truth_tables(
    run_paths: Sequence[Path], given: Sequence[Path], out: Path
) -> list[dict[int, Path]]:
    """Each run's tables by checkpoint: from the folders `given`, or else `out` or its directory.

    A run without any gives {}. Raises `UserError` for a folder that is missing, and where folders
    were given that hold none of any run.
    """
    tables: list[dict[int, Path]] = []
    errors: list[UserError] = []
    for path in run_paths:
        try:
            tables.append(find_truth(path, given, [out]))
        except UserError as error:
            tables.append({})
            errors.append(error)
    if given and not any(tables):
        raise errors[0]
    return tables


def truths_of_iteration(
    tables: dict[int, Path], iteration: int, rows: Sequence[dict[str, Any]]
) -> dict[Prefix, TruthState]:
    """The truth of states of the iteration's rollouts `rows`, by prefix.

    A prefix that several rollouts of a problem share is one state. Where two policies continued a
    state, the one that had sampled the rollouts counts: checkpoint `iteration` − 1. Raises
    `UserError` naming the table for a damaged one and for states that the rollouts do not have.
    """
    row_of = {(row["problem_id"], row["rollout_index"]): row for row in rows}
    truths: dict[Prefix, TruthState] = {}
    for checkpoint in (iteration - 1, iteration):
        if checkpoint not in tables:
            continue
        for state in read_truth(tables[checkpoint]):
            if state.rollout_iteration == iteration:
                row = row_of.get((state.problem_id, state.rollout_index))
                truths.setdefault(_prefix(state, row, tables[checkpoint]), state)
    return truths


def _prefix(state: TruthState, row: dict[str, Any] | None, table: Path) -> Prefix:
    starts = [] if row is None else row["step_starts"]
    is_there = state.step_index < len(starts)
    if row is None or not is_there or starts[state.step_index] != state.prefix_length:
        raise UserError(
            f"{table} is of another run: its state {state.key} is none of the rollouts of "
            f"iteration {state.rollout_iteration}"
        )
    return state.problem_id, tuple(row["response_ids"][: state.prefix_length])
