"""Parquet tables that analyses make of a run's checkpoints: their places, and reading them."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from vineppo.errors import UserError
from vineppo.run_dir.tables import read_parquet


def table_path(out: Path, kind: str, run_path: Path, checkpoint: int) -> Path:
    """`OUT/KIND/<run>/iter_000010.parquet`: where the table of a run's checkpoint is, or goes."""
    return out / kind / run_path.resolve().name / f"iter_{checkpoint:06d}.parquet"


def find_tables(folder: Path, kind: str) -> list[Path]:
    """Those of one kind under `folder`, by run and checkpoint."""
    return sorted((folder / kind).glob("*/iter_*.parquet"))


def holds_tables_alone(folder: Path, kind: str) -> bool:
    """Whether `folder` is none of a run and has tables of a kind, to be drawn again."""
    return bool(find_tables(folder, kind)) and not (folder / "config.json").exists()


def read_rows(
    path: Path,
    schema: pa.Schema,
    noun: str | None,
    optional: Collection[str] = (),
    added: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The rows, with the columns of `schema` alone; a cell may be empty in `optional` ones.

    Files from before a column of `added` was there are read with it empty.

    Raises `UserError` naming the file, and the row where there is one. `noun` is what a
    row is, None where the table may hold none.
    """
    rows = read_parquet(path)
    if not rows and noun is not None:
        raise UserError(f"{path} holds no {noun}")
    rows = [dict.fromkeys(added) | row for row in rows]
    if rows and (missing := set(schema.names) - rows[0].keys()):
        raise UserError(f"{path} has no column {', '.join(sorted(missing))}")
    needed = [name for name in schema.names if name not in (*optional, *added)]
    for number, row in enumerate(rows, start=1):
        if any(row[name] is None for name in needed):
            raise UserError(f"{path}, row {number} has an empty cell")
    return [{name: row[name] for name in schema.names} for row in rows]


def check_counts(rows: list[dict[str, Any]], path: Path) -> None:
    """Raises `UserError` for a row whose num_correct of num_samples cannot be or says no spread."""
    for number, row in enumerate(rows, start=1):
        if not 0 <= row["num_correct"] <= row["num_samples"] or row["num_samples"] < 2:
            raise UserError(f"{path}, row {number}: num_correct must be in 0..num_samples, from 2")
