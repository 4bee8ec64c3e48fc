"""Reads rollouts, values and tokenizers of a run directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

import vineppo
from analysis.frames import Run
from vineppo.errors import UserError
from vineppo.run_dir import RunDir

EMBEDDED = "embedded:"  # models that the package carries
STATE_COLUMNS = ("problem_id", "rollout_index", "response_ids", "step_starts", "reward")
STATE_KEY = ("problem_id", "rollout_index", "step_index")
VALUE_COLUMNS = ("returns_K", "critic_value")
ADVANTAGES = "advantages_S"

Row = dict[str, Any]
StepKey = tuple[str, int, int]  # problem, rollout, step


def find_tokenizer(run: Run) -> Tokenizer | None:
    """The tokenizer of the final policy, a checkpoint or the start: what is on this machine."""
    run_dir = RunDir(run.path)
    checkpoints = sorted(run_dir.checkpoints_path.glob("iter_*"), reverse=True)
    folders = [run_dir.final_path / "policy", *(path / "policy" for path in checkpoints)]
    start = run.config.get("model", {}).get("path")
    if start and start.startswith(EMBEDDED):
        assets = Path(vineppo.__file__).parent / "assets"
        folders.append(assets / start.removeprefix(EMBEDDED))
    elif start:
        folders.append(Path(start))
    for folder in folders:
        if (folder / "tokenizer.json").is_file():
            return Tokenizer.from_file(str(folder / "tokenizer.json"))
    return None


def read_rollouts(run_path: Path, iteration: int, columns: Sequence[str] = ()) -> list[Row]:
    """The rows of `rollouts/`, with the columns that name their states, and `columns`.

    Raises `UserError` naming the run for a table that is damaged, empty or lacks a column. If
    `columns` has the advantages, every step of a rollout must have one.
    """
    rows = RunDir(run_path).read_rollouts(iteration)
    place = f"{run_path}: rollouts of iteration {iteration}"
    if not rows:
        raise UserError(f"{place} hold no row")
    _check_columns(rows, place, (*STATE_COLUMNS, *columns))
    for row in rows if ADVANTAGES in columns else ():
        if not row["step_starts"] or len(row["step_starts"]) != len(row[ADVANTAGES] or ()):
            raise UserError(
                f"{place}: {row['problem_id']} {row['rollout_index']} must have an advantage a step"
            )
    return rows


def values_by_state(
    run_path: Path, iteration: int, columns: Sequence[str] = VALUE_COLUMNS
) -> dict[StepKey, Row]:
    """The rows of `values/` by state; none where none were saved. No `predictions_by_state`.

    Raises `UserError` naming the run for a table that is damaged or lacks one of `columns`.
    """
    rows = _value_rows(run_path, iteration, columns)
    return {state_key(row): row for row in rows if row.get("predictor") is None}


def predictions_by_state(run_path: Path, iteration: int) -> dict[str, dict[StepKey, Row]]:
    """The rows of the predictors besides continuations and critic: by name, then by state."""
    by_predictor: dict[str, dict[StepKey, Row]] = {}
    for row in _value_rows(run_path, iteration, ()):
        if row.get("predictor") is not None:
            by_predictor.setdefault(row["predictor"], {})[state_key(row)] = row
    return by_predictor


def state_key(row: Row) -> StepKey:
    return row["problem_id"], row["rollout_index"], row["step_index"]


def _value_rows(run_path: Path, iteration: int, columns: Sequence[str]) -> list[Row]:
    run_dir = RunDir(run_path)
    if iteration not in run_dir.iterations("values"):
        return []
    rows = run_dir.read_values(iteration)
    names = (*STATE_KEY, *columns)
    _check_columns(rows, f"{run_path}: values of iteration {iteration}", names)
    return rows


def _check_columns(rows: Sequence[Row], place: str, columns: Sequence[str]) -> None:
    for name in columns:
        if rows and name not in rows[0]:
            raise UserError(f"{place} have no column {name}")
