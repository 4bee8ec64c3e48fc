"""Tables of policy gradients: their inner products and costs, from which everything else follows.

`gradient-variance` writes one a checkpoint, `OUT/gradients/<run>/iter_000010.parquet`, and what it
was made with beside it, `iter_000010.json`. Reading needs no torch.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from analysis import run_tables
from vineppo.errors import UserError
from vineppo.run_dir.tables import write_parquet

FOLDER = "gradients"
PRODUCTS = ("gram_N", "with_first_N")
# One row per estimator and problem; the problems of every estimator are the same, in one order.
GRADIENT_SCHEMA = pa.schema(
    {
        "run": pa.string(),
        "method": pa.string(),
        "seed": pa.int64(),
        "checkpoint": pa.int32(),
        "rollout_iteration": pa.int32(),
        "estimator": pa.string(),
        "problem_id": pa.string(),
        "num_tokens": pa.float64(),
        "time_s": pa.float64(),
        "gram_N": pa.list_(pa.float32()),
        "with_first_N": pa.list_(pa.float32()),
    }
)


@dataclass(frozen=True)
class GradientTable:
    """The gradients of N problems by E estimators on one checkpoint's rollouts.

    `gram_ENN[e, i, j]` is the inner product of problem i's and j's gradients by estimator e, and
    `with_first_ENN[e, i, j]` that of i's by e and j's by the first. `num_tokens_EN` were sampled
    for the estimate, `time_s_EN` is what it takes (NaN where the run logged no times).
    `rollout_iteration` is checkpoint + 1 where the checkpoint itself had sampled the rollouts.
    """

    run: str
    method: str
    seed: int
    checkpoint: int
    rollout_iteration: int
    estimators: tuple[str, ...]
    problem_ids: tuple[str, ...]
    num_tokens_EN: np.ndarray
    time_s_EN: np.ndarray
    gram_ENN: np.ndarray
    with_first_ENN: np.ndarray

    @property
    def is_own_policy(self) -> bool:
        return self.rollout_iteration == self.checkpoint + 1


def table_path(out: Path, run_path: Path, checkpoint: int) -> Path:
    """Where the table of a run's checkpoint is, or goes, under the folder `out`."""
    return run_tables.table_path(out, FOLDER, run_path, checkpoint)


def find_tables(folder: Path) -> list[Path]:
    """Those under `folder`, by run and checkpoint."""
    return run_tables.find_tables(folder, FOLDER)


def write_gradients(path: Path, table: GradientTable) -> None:
    num_estimators, num_problems = table.num_tokens_EN.shape
    rows = [
        {
            "run": table.run,
            "method": table.method,
            "seed": table.seed,
            "checkpoint": table.checkpoint,
            "rollout_iteration": table.rollout_iteration,
            "estimator": table.estimators[e],
            "problem_id": table.problem_ids[i],
            "num_tokens": table.num_tokens_EN[e, i],
            "time_s": None if np.isnan(table.time_s_EN[e, i]) else table.time_s_EN[e, i],
            "gram_N": table.gram_ENN[e, i],
            "with_first_N": table.with_first_ENN[e, i],
        }
        for e in range(num_estimators)
        for i in range(num_problems)
    ]
    write_parquet(path, rows, GRADIENT_SCHEMA)


def read_gradients(path: Path) -> GradientTable:
    """Raises `UserError` naming the file where it is damaged, incomplete or of other columns."""
    rows = run_tables.read_rows(path, GRADIENT_SCHEMA, "gradient", ("seed", "time_s", *PRODUCTS))
    estimators = tuple(dict.fromkeys(row["estimator"] for row in rows))
    problem_ids = tuple(dict.fromkeys(row["problem_id"] for row in rows))
    shape = len(estimators), len(problem_ids)
    expected = [(name, problem) for name in estimators for problem in problem_ids]
    if [(row["estimator"], row["problem_id"]) for row in rows] != expected:
        raise UserError(f"{path} must hold every problem once for every estimator, in one order")
    for number, row in enumerate(rows, start=1):
        for column in PRODUCTS:
            if len(row[column] or ()) != len(problem_ids):
                raise UserError(
                    f"{path}, row {number}: {column} must hold {len(problem_ids)} numbers"
                )
    first = rows[0]
    gram_ENN, with_first_ENN = (
        np.array([row[column] for row in rows], float).reshape(*shape, shape[1])
        for column in PRODUCTS
    )
    return GradientTable(
        run=first["run"],
        method=first["method"],
        seed=first["seed"],
        checkpoint=first["checkpoint"],
        rollout_iteration=first["rollout_iteration"],
        estimators=estimators,
        problem_ids=problem_ids,
        num_tokens_EN=np.array([row["num_tokens"] for row in rows], float).reshape(shape),
        time_s_EN=np.array([row["time_s"] for row in rows], float).reshape(shape),
        gram_ENN=gram_ENN,
        with_first_ENN=with_first_ENN,
    )
