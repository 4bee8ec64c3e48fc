"""The table with one row a state and predictor, from which all the others are made."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from analysis.run_tables import check_counts, read_rows
from analysis.value_accuracy.predictors import split_name
from vineppo.errors import UserError
from vineppo.run_dir.tables import write_parquet

TABLE_NAME = "value_accuracy_states.parquet"
BOUNDARY, QUERY = "boundary", "query"
STATES_SCHEMA = pa.schema(
    {
        "run_dir": pa.string(),
        "name": pa.string(),
        "seed": pa.int32(),
        "task": pa.string(),
        "checkpoint": pa.int32(),
        "rollout_iteration": pa.int32(),
        "problem_id": pa.string(),
        "rollout_index": pa.int32(),
        "step_index": pa.int32(),
        "num_steps": pa.int32(),
        "position": pa.float64(),
        "reward": pa.float64(),
        "num_samples": pa.int32(),
        "num_correct": pa.int32(),
        "predictor": pa.string(),
        "num_returns": pa.int32(),
        "prediction": pa.float64(),
    }
)
_NULLABLE = ("num_returns", "prediction")


@dataclass(frozen=True, slots=True)
class StateRow:
    """What one predictor says of a state of a run, and what `num_samples` fresh returns say.

    `task` is a digest of the run's task. `checkpoint` is the policy of the truth,
    `rollout_iteration` the iteration of the rollout, whose own `reward` is given. `position` is the
    share of the response before the state, 0 of the query. `prediction` is None where the predictor
    says nothing, `num_returns` the number of returns that it averages (None: no mean).
    """

    run_dir: str
    name: str
    seed: int
    task: str
    checkpoint: int
    rollout_iteration: int
    problem_id: str
    rollout_index: int
    step_index: int
    num_steps: int
    position: float
    reward: float
    num_samples: int
    num_correct: int
    predictor: str
    num_returns: int | None
    prediction: float | None

    @property
    def group(self) -> str:
        """Query states are kept apart: no step has been taken there."""
        return QUERY if self.position == 0 else BOUNDARY

    @property
    def is_own_policy(self) -> bool:
        """Whether the policy of the truth is the one that the training's predictions are of.

        Otherwise, at the last policy of a run, these are of the policy one update before.
        """
        return self.rollout_iteration == self.checkpoint + 1


def write_states(path: Path, rows: Sequence[StateRow]) -> None:
    write_parquet(path, [dataclasses.asdict(row) for row in rows], STATES_SCHEMA)


def read_states(path: Path) -> list[StateRow]:
    """The rows of a table. Raises `UserError` naming the file, and the row where there is one."""
    rows = read_rows(path, STATES_SCHEMA, "state", _NULLABLE)
    check_counts(rows, path)
    for number, row in enumerate(rows, start=1):
        if row["prediction"] is not None and not math.isfinite(row["prediction"]):
            raise UserError(f"{path}, row {number}: prediction must be finite")
    states = [StateRow(**row) for row in rows]
    for predictor in {state.predictor for state in states}:
        split_name(predictor)
    return states
