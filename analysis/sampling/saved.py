"""The rollouts of an iteration as the trainer had them, read back from the run's tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.rollout_files import read_rollouts, values_by_state
from vineppo.errors import UserError
from vineppo.types import Problem, Rollout, StateValue, StepSpan

ROLLOUT_COLUMNS = ("prompt_ids", "logprobs", "finish_reason")
VALUE_COLUMNS = ("problem_id", "rollout_index", "step_index", "returns_K", "num_tokens")


@dataclass(frozen=True)
class SavedRollout:
    """A rollout, its steps, and the Monte-Carlo values of their states, None where none are saved.

    The problem holds its id alone: tables hold no questions.
    """

    rollout: Rollout
    spans_S: tuple[StepSpan, ...]
    values_S: tuple[StateValue, ...] | None

    def prefix_ids(self, step: int) -> tuple[int, ...]:
        """The response before step `step`."""
        return self.rollout.response_ids[: self.spans_S[step].start]


def read_saved(run_path: Path, iteration: int) -> list[SavedRollout]:
    """The rollouts of an iteration in the order of the table: those of a problem stand together.

    Raises `UserError` for a table that is damaged or incomplete.
    """
    rows = read_rollouts(run_path, iteration, ROLLOUT_COLUMNS)
    values = _read_values(run_path, iteration)
    return [_saved(run_path, iteration, row, values) for row in rows]


def groups_of(saved: Sequence[SavedRollout]) -> list[list[SavedRollout]]:
    """The rollouts of each problem."""
    groups: dict[str, list[SavedRollout]] = {}
    for one in saved:
        groups.setdefault(one.rollout.problem.id, []).append(one)
    return list(groups.values())


def _saved(
    run_path: Path,
    iteration: int,
    row: dict[str, Any],
    values: dict[tuple[str, int, int], StateValue],
) -> SavedRollout:
    starts, length = row["step_starts"], len(row["response_ids"])
    ends = [*starts[1:], length]
    key = row["problem_id"], row["rollout_index"]
    found = [values.get((*key, step)) for step in range(len(starts))]
    values_S = tuple(value for value in found if value is not None)
    if values_S and len(values_S) < len(starts):
        raise UserError(
            f"{run_path}: values of iteration {iteration} lack a state of rollout {key[1]} of "
            f"problem {key[0]}"
        )
    return SavedRollout(
        rollout=Rollout(
            problem=Problem(row["problem_id"], "", ""),
            rollout_index=row["rollout_index"],
            prompt_ids=tuple(row["prompt_ids"]),
            response_ids=tuple(row["response_ids"]),
            logprobs_T=tuple(row["logprobs"]),
            finish_reason=row["finish_reason"],
            text="",
            reward=row["reward"],
        ),
        spans_S=tuple(StepSpan(a, b) for a, b in zip(starts, ends, strict=True)),
        values_S=values_S or None,
    )


def _read_values(run_path: Path, iteration: int) -> dict[tuple[str, int, int], StateValue]:
    """By problem, rollout and step; empty where the run has no Monte-Carlo values."""
    rows = values_by_state(run_path, iteration, VALUE_COLUMNS)
    return {
        key: StateValue(tuple(row["returns_K"]), row["num_tokens"])
        for key, row in rows.items()
        if row["returns_K"]
    }
