"""Tables: CSV files with columns declared once, Parquet files of checkpoints, and Markdown."""

import io
import math
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from analysis.stats.bootstrap import Estimate
from vineppo.errors import UserError
from vineppo.run_dir import named_errors, read_parquet, write_atomic

_DTYPES = {str: "str", int: "int64", float: "float64", str | None: "str", int | None: "Int64"}
_DTYPES |= {float | None: "float64"}
UNKNOWN = "–"


@dataclass(frozen=True)
class Table:
    """A CSV file and its columns by name: `str`, `int` or `float`, `| None` where a cell may be
    empty. `Estimate` stands for three columns: `name`, `name_low` and `name_high`. Files from
    before a column of `added` was there are read with it empty.
    """

    name: str
    columns: Mapping[str, Any]
    added: Collection[str] = ()

    @property
    def types(self) -> dict[str, Any]:
        """The columns with every `Estimate` as its three."""
        return {
            column: float | None if kind is Estimate else kind
            for name, kind in self.columns.items()
            for column in (estimate_columns(name) if kind is Estimate else (name,))
        }

    def frame(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
        """A frame of these columns and types; missing and infinite cells are empty."""
        if not isinstance(rows, pd.DataFrame):
            rows = pd.DataFrame([_cells(row) for row in rows])
        unknown = set(rows.columns).difference(self.types)
        assert not unknown, f"{self.name} declares no column {', '.join(sorted(unknown))}"
        frame = rows.reindex(columns=list(self.types)).replace([math.inf, -math.inf], math.nan)
        return frame.astype({name: _DTYPES[kind] for name, kind in self.types.items()})

    def write(self, folder: Path, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> list[Path]:
        """Writes `folder/name` and returns its path; nothing of no rows.

        Numbers are written so that `read` gives the very same ones back.
        """
        frame = self.frame(rows)
        if frame.empty:
            return []
        text = frame.to_csv(index=False, lineterminator="\n")
        write_atomic(folder / self.name, text.encode())
        return [folder / self.name]

    def read(self, folder: Path) -> pd.DataFrame:
        """The table in `folder`; columns that are not declared are left out.

        Raises `UserError` naming the file for a missing table, column or row, and for a cell of a
        wrong type.
        """
        path, types = folder / self.name, self.types
        with named_errors("read", path):
            content = path.read_bytes()
        dtypes = {name: _DTYPES[kind] for name, kind in types.items()}
        try:
            frame = pd.read_csv(
                io.BytesIO(content), dtype=dtypes, keep_default_na=False,
                na_values={name: [""] for name in types if types[name] is not str},
                float_precision="round_trip",
            )  # fmt: skip
        except (ValueError, TypeError) as error:  # a parser's error is a ValueError
            raise UserError(f"{path} is no table of {self.name}: {error}") from None
        for name in self.added:
            later = estimate_columns(name) if self.columns[name] is Estimate else (name,)
            frame = frame.assign(**dict.fromkeys(set(later) - set(frame), math.nan))
        for name, kind in types.items():
            if name not in frame:
                raise UserError(f"{path} has no column {name}")
            if not typing.get_args(kind) and frame[name].isna().any():
                raise UserError(f"{path} has an empty cell in column {name}")
        if frame.empty:
            raise UserError(f"{path} holds no row")
        return self.frame(frame[list(types)])

    def holds(self, folder: Path) -> bool:
        """True for a folder that is no run and has this table, to be drawn again."""
        return (folder / self.name).exists() and not (folder / "config.json").exists()


def estimate_columns(name: str) -> tuple[str, str, str]:
    return name, f"{name}_low", f"{name}_high"


def estimate(row: Mapping[Any, Any] | pd.Series, name: str) -> Estimate | None:
    """The three cells of an estimate in a row of a frame; None where it is empty."""
    value, low, high = (row[column] for column in estimate_columns(name))
    if pd.isna(value):
        return None
    return Estimate(float(value), *(None if pd.isna(end) else float(end) for end in (low, high)))


def table_path(out: Path, kind: str, run_path: Path, checkpoint: int) -> Path:
    """`OUT/KIND/<run>/iter_000010.parquet`: where the table of a run's checkpoint is, or goes."""
    return out / kind / run_path.resolve().name / f"iter_{checkpoint:06d}.parquet"


def find_tables(folder: Path, kind: str) -> list[Path]:
    """Those of one kind under `folder`, by run and checkpoint."""
    return sorted((folder / kind).glob("*/iter_*.parquet"))


def holds_tables_alone(folder: Path, kind: str) -> bool:
    """True for a folder that is no run and has tables of a kind, to be drawn again."""
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
    """Raises `UserError` for a row with impossible counts or fewer than two samples."""
    for number, row in enumerate(rows, start=1):
        if not 0 <= row["num_correct"] <= row["num_samples"] or row["num_samples"] < 2:
            raise UserError(f"{path}, row {number}: num_correct must be in 0..num_samples, from 2")


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    cells = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in cells]


def number(value: Any, form: str = ".3f", unit: str = "") -> str:
    """`number(1234.5, ",.0f", " s")` is "1,234 s"; a dash for what is empty."""
    return UNKNOWN if pd.isna(value) else f"{value:{form}}{unit}"


def interval(estimate: Estimate | None, form: str = ".3f") -> str:
    """`interval(Estimate(0.5, 0.4, 0.6))` is "0.500 (0.400 to 0.600)"."""
    if estimate is None:
        return UNKNOWN
    if estimate.low is None or estimate.high is None:
        return number(estimate.value, form)
    return f"{estimate.value:{form}} ({estimate.low:{form}} to {estimate.high:{form}})"


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, Estimate):
            cells |= zip(estimate_columns(name), (cell.value, cell.low, cell.high), strict=True)
        else:
            cells[name] = cell
    return cells
