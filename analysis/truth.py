"""Ground-truth tables: counts of returns of fresh continuations from states of a run's rollouts.

`ground-truth` writes one a checkpoint, `OUT/ground_truth/<run>/iter_000010.parquet`, and its
settings, `iter_000010.json`. Reading needs no torch.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.tables import check_counts, read_rows, table_path
from vineppo.errors import UserError
from vineppo.run_dir import write_parquet

FOLDER = "ground_truth"
ANALYSIS = "ground-truth"
# One row per state.
TRUTH_SCHEMA = pa.schema(
    {"checkpoint": pa.int32(), "rollout_iteration": pa.int32(), "problem_id": pa.string()}
    | dict.fromkeys(("rollout_index", "step_index", "num_steps"), pa.int32())
    | {"prefix_length": pa.int32(), "response_length": pa.int32(), "reward": pa.float32()}
    | dict.fromkeys(("num_samples", "num_correct", "num_truncated"), pa.int32())
    | {"num_tokens": pa.int64(), "draws_D": pa.list_(pa.int8())}
    | {"predictions": pa.map_(pa.string(), pa.float32())}
)
# A state: the problem, and the tokens of a response up to a step.
Prefix = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class TruthState:
    """A state before step `step_index` of a rollout, and the returns of fresh continuations of it.

    `checkpoint` is the iteration of the policy that continued it (0: the starting policy).
    Checkpoint `rollout_iteration` − 1 sampled the rollout; `reward` is the rollout's. `num_correct`
    of `num_samples` returns were 1, the rest 0; they took `num_tokens`, and `num_truncated` met the
    token budget. `draws_D` are returns of further, independent continuations, for predictions.
    `predictions` are V by name from the checkpoint's predictors without continuations.
    """

    checkpoint: int
    rollout_iteration: int
    problem_id: str
    rollout_index: int
    step_index: int
    num_steps: int
    prefix_length: int
    response_length: int
    reward: float
    num_samples: int
    num_correct: int
    num_truncated: int
    num_tokens: int
    draws_D: tuple[int, ...]
    predictions: dict[str, float] = field(default_factory=dict)

    @property
    def is_own_policy(self) -> bool:
        """True where the policy that continued it had sampled its rollout."""
        return self.rollout_iteration == self.checkpoint + 1

    @property
    def key(self) -> tuple[str, int, int]:
        """The name of a state in the tables `rollouts/` and `values/` of its iteration."""
        return self.problem_id, self.rollout_index, self.step_index

    @property
    def value(self) -> float:
        """p̂ = c/m."""
        return self.num_correct / self.num_samples


def truth_path(out: Path, run_path: Path, checkpoint: int) -> Path:
    """Where the table of a run's checkpoint is, or goes, under the folder `out`."""
    return table_path(out, FOLDER, run_path, checkpoint)


def check_names(paths: Sequence[Path]) -> None:
    """Refuses run directories of one name: they would share a table (`UserError`)."""
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(path.resolve().name, path)
        if other is not path:
            raise UserError(f"{other} and {path} have one name; their tables would be one")


def write_truth(path: Path, states: Sequence[TruthState]) -> None:
    write_parquet(path, [dataclasses.asdict(state) for state in states], TRUTH_SCHEMA)


def read_truth(path: Path) -> list[TruthState]:
    """The states of a table. Raises `UserError` naming the file, and the row where there is one."""
    rows = read_rows(path, TRUTH_SCHEMA, "state", added=["predictions"])
    check_counts(rows, path)
    for row in rows:
        row["draws_D"] = tuple(row["draws_D"])
        row["predictions"] = dict(row["predictions"] or ())
    return [TruthState(**row) for row in rows]


def find_truth(
    run_path: Path, given: Sequence[Path], folders: Sequence[Path] = ()
) -> dict[int, Path]:
    """The tables of a run by checkpoint, ascending, from the first folder that holds some.

    It looks in the folders that the user has `given`, else in `folders` and the run's own
    `analysis/ground-truth/`. Raises `UserError` where they are missing or hold none.
    """
    for folder in given:
        if not folder.is_dir():
            raise UserError(f"--truth {folder} is no directory")
    for folder in given or (*folders, run_path / "analysis" / ANALYSIS):
        paths = truth_path(folder, run_path, 0).parent.glob("iter_*.parquet")
        named = {path.stem.removeprefix("iter_"): path for path in paths}
        tables = {int(number): path for number, path in named.items() if number.isdecimal()}
        if tables:
            return dict(sorted(tables.items()))
    where = "".join(f" in {folder}" for folder in given)
    option = "".join(f" --out {folder}" for folder in given[:1])
    raise UserError(
        f"{run_path} has no ground truth{where}; make it with: "
        f"python -m analysis ground-truth {run_path}{option}"
    )


def truth_tables(
    run_paths: Sequence[Path], given: Sequence[Path], out: Path
) -> dict[Path, dict[int, Path]]:
    """`find_truth` of every run, also in `out`; {} of a run without any.

    Raises `UserError` for a folder that is missing, and where those given hold none of any run.
    """
    tables: dict[Path, dict[int, Path]] = {}
    for path in run_paths:
        try:
            tables[path] = find_truth(path, given, [out])
        except UserError:
            tables[path] = {}
            if given and path == run_paths[-1] and not any(tables.values()):
                raise
    return tables


def truths_of_iteration(
    tables: Mapping[int, Path], iteration: int, rollouts: Sequence[Mapping[str, Any]]
) -> dict[Prefix, TruthState]:
    """The truth of states of the iteration's `rollouts`, by prefix.

    A prefix that several rollouts of a problem share is one state. Where two policies continued a
    state, the one that had sampled the rollouts counts: checkpoint `iteration` − 1. Raises
    `UserError` naming the table for a damaged one and for states that the rollouts do not have.
    """
    truths: dict[Prefix, TruthState] = {}
    for table in (tables[i] for i in (iteration - 1, iteration) if i in tables):
        states = [state for state in read_truth(table) if state.rollout_iteration == iteration]
        check_rollouts(states, rollouts, table)
        row_of = {(row["problem_id"], row["rollout_index"]): row for row in rollouts}
        for state in states:
            row = row_of[state.problem_id, state.rollout_index]
            prefix = tuple(row["response_ids"][: state.prefix_length])
            truths.setdefault((state.problem_id, prefix), state)
    return truths


def check_rollouts(
    states: Sequence[TruthState], rollouts: Sequence[Mapping[str, Any]], table: Path
) -> None:
    """Refuses states of a table that are none of their iteration's `rollouts` (`UserError`)."""
    lengths = {
        (row["problem_id"], row["rollout_index"], step): (
            (len(row["step_starts"]), start, len(row["response_ids"]), row["reward"])
        )
        for row in rollouts
        for step, start in enumerate(row["step_starts"])
    }
    for state in states:
        found = state.num_steps, state.prefix_length, state.response_length, state.reward
        if lengths.get(state.key) != found:
            raise UserError(
                f"{table} is of another run: its state {state.key} is none of the rollouts of "
                f"iteration {state.rollout_iteration}"
            )
