"""Brings tables that older versions wrote into the form of today: `convert_tables.py FOLDER...`.

Of value-accuracy that is the table of states; `python -m analysis value-accuracy FOLDER --out
FOLDER` makes the others and the figures from it. In tables of alternatives (`action-ranking`)
`critic_value` becomes an entry of `predictions`.
"""

import sys
from pathlib import Path

import pandas as pd

from analysis.action_ranking import FOLDER, SCHEMA
from analysis.run_tables import find_tables
from analysis.value_states import STATES, STATES_NAME, write_states
from vineppo.run_dir.tables import read_parquet, write_parquet

# The tables that one long table has taken the place of.
REPLACED = ("value_accuracy_differences.csv", "value_accuracy_strata.csv")


def convert_states(folder: Path) -> None:
    """`name` is `method` now, and a state without a prediction has no row."""
    states = pd.read_parquet(folder / STATES_NAME, dtype_backend="numpy_nullable")
    states = states.rename(columns={"name": "method"}).dropna(subset="prediction")
    write_states(folder / STATES_NAME, states[STATES.names])
    for name in REPLACED:
        (folder / name).unlink(missing_ok=True)


def convert_alternatives(path: Path) -> None:
    rows = read_parquet(path)
    if not rows or "critic_value" not in rows[0]:
        return
    for row in rows:
        value = row.pop("critic_value")
        row["predictions"] = {} if value is None else {"critic": value}
    write_parquet(path, rows, SCHEMA)


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        if (folder / STATES_NAME).exists():
            convert_states(folder)
        for table in find_tables(folder, FOLDER):
            convert_alternatives(table)
