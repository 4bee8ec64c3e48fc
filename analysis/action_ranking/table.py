"""Tables of alternative next steps: what was sampled after each, and what predicts it.

`action-ranking` writes one a checkpoint, `OUT/action_ranking/<run>/iter_000010.parquet`, and what
it was made with beside it, `iter_000010.json`. Reading needs no torch.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from analysis import run_tables
from analysis.sampling.settings_file import read_settings, settings_path
from vineppo.errors import UserError
from vineppo.run_dir.tables import write_parquet

FOLDER = "action_ranking"
# One row per alternative; the alternatives of a state are next to each other.
SCHEMA = pa.schema(
    {
        "checkpoint": pa.int32(),
        "rollout_iteration": pa.int32(),
        "num_drawn_states": pa.int32(),
        "problem_id": pa.string(),
        "rollout_index": pa.int32(),
        "step_index": pa.int32(),
        "num_steps": pa.int32(),
        "prefix_length": pa.int32(),
        "response_length": pa.int32(),
        "alternative_index": pa.int32(),
        "step_ids": pa.list_(pa.int32()),
        "step_text": pa.string(),
        "num_proposed": pa.int32(),
        "num_proposals": pa.int32(),
        "is_terminal": pa.bool_(),
        "num_samples": pa.int32(),
        "num_correct": pa.int32(),
        "num_truncated": pa.int32(),
        "num_tokens": pa.int64(),
        "draws_D": pa.list_(pa.int8()),
        "critic_value": pa.float32(),
    }
)
OPTIONAL = ("critic_value",)


@dataclass(frozen=True)
class RankedStep:
    """One alternative next step at a state of a rollout.

    The state is named by (`problem_id`, `rollout_index`, `step_index`) in the rollouts of
    `rollout_iteration`; `num_drawn_states` counts those that were looked at, also those left out
    for want of alternatives. Of `num_proposals` continuations of the state `num_proposed` began
    with this step. `num_correct` of `num_samples` returns after it were 1, the rest 0; `draws_D`
    are the returns of further continuations, independent of those. A step that ends the response
    (`is_terminal`) has one return, which all of them are. `critic_value` is V of the state after
    the step, the return itself of a terminal one, as in training; None without a critic.
    """

    checkpoint: int
    rollout_iteration: int
    num_drawn_states: int
    problem_id: str
    rollout_index: int
    step_index: int
    num_steps: int
    prefix_length: int
    response_length: int
    alternative_index: int
    step_ids: tuple[int, ...]
    step_text: str
    num_proposed: int
    num_proposals: int
    is_terminal: bool
    num_samples: int
    num_correct: int
    num_truncated: int
    num_tokens: int
    draws_D: tuple[int, ...]
    critic_value: float | None

    @property
    def state_key(self) -> tuple[str, int, int]:
        return self.problem_id, self.rollout_index, self.step_index


@dataclass(frozen=True)
class RankedState:
    """A state and its alternatives, in the order in which the policy proposed them."""

    steps_A: tuple[RankedStep, ...]

    @property
    def problem_id(self) -> str:
        return self.steps_A[0].problem_id

    @property
    def is_query(self) -> bool:
        """Whether it is the prompt alone: its alternatives are first steps."""
        return self.steps_A[0].prefix_length == 0

    @property
    def is_over(self) -> bool:
        """Whether every alternative ends the response: all is known, and no value is estimated."""
        return all(step.is_terminal for step in self.steps_A)

    @property
    def position(self) -> float:
        """Where in its rollout the state is, 0 at the prompt: tokens before it of all tokens."""
        return self.steps_A[0].prefix_length / self.steps_A[0].response_length

    @property
    def num_correct(self) -> np.ndarray:
        return np.array([step.num_correct for step in self.steps_A])

    @property
    def draws(self) -> np.ndarray:
        return np.array([step.draws_D for step in self.steps_A])

    @property
    def critic_values(self) -> np.ndarray | None:
        """None where no critic said anything of one of them."""
        values = [step.critic_value for step in self.steps_A]
        known = [value for value in values if value is not None]
        return np.array(known) if len(known) == len(values) else None


@dataclass(frozen=True)
class RankingTable:
    """The states of one checkpoint of a run, whose `name` and `seed` the file beside it holds."""

    path: Path
    name: str
    seed: int
    states: list[RankedState]

    @property
    def any_step(self) -> RankedStep:
        """For what all rows have in common; there must be one."""
        return self.states[0].steps_A[0]

    @property
    def ranked_states(self) -> list[RankedState]:
        """The states at which there is something to predict."""
        return [state for state in self.states if not state.is_over]


def table_path(out: Path, run_path: Path, checkpoint: int) -> Path:
    """Where the table of a run's checkpoint is, or goes, under the folder `out`."""
    return run_tables.table_path(out, FOLDER, run_path, checkpoint)


def find_tables(folder: Path) -> list[Path]:
    """The tables under `folder`, by run and checkpoint."""
    return run_tables.find_tables(folder, FOLDER)


def write_ranking(path: Path, steps: Sequence[RankedStep]) -> None:
    write_parquet(path, [dataclasses.asdict(step) for step in steps], SCHEMA)


def read_ranking(path: Path) -> RankingTable:
    """A table, which may hold no state. Raises `UserError` naming the file, and the row if any."""
    about = read_settings(path)
    name, seed = about.get("method"), about.get("run_seed")
    if not isinstance(name, str) or not isinstance(seed, int):
        raise UserError(f"{settings_path(path)} does not say of which run {path.name} is")
    rows = run_tables.read_rows(path, SCHEMA, None, OPTIONAL)
    run_tables.check_counts(rows, path)
    steps = list(map(_step, rows))
    if len({(step.checkpoint, step.num_samples, len(step.draws_D)) for step in steps}) > 1:
        raise UserError(
            f"{path}: all rows must have one checkpoint, num_samples and draws_D's length"
        )
    states = []
    for key, group in groupby(steps, lambda step: step.state_key):
        steps_A = tuple(group)
        if [step.alternative_index for step in steps_A] != list(range(len(steps_A))):
            raise UserError(f"{path}: the alternatives of {'/'.join(map(str, key))} are not whole")
        states.append(RankedState(steps_A))
    return RankingTable(path, name, seed, states)


def _step(row: dict[str, Any]) -> RankedStep:
    lists = {name: tuple(row[name]) for name in ("step_ids", "draws_D")}
    return RankedStep(**row | lists)
