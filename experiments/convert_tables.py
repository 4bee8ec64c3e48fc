"""Brings tables that older versions wrote into the form of today: `convert_tables.py FOLDER...`.

Of value-accuracy that is the table of states; `python -m analysis value-accuracy FOLDER --out
FOLDER` makes the others and the figures from it.
"""

import sys
from pathlib import Path

import pandas as pd

from analysis.value_accuracy import STATES, STATES_NAME, write_states

# The tables that one long table has taken the place of.
REPLACED = ("value_accuracy_differences.csv", "value_accuracy_strata.csv")


def convert_states(folder: Path) -> None:
    """`name` is `method` now, and a state without a prediction has no row."""
    states = pd.read_parquet(folder / STATES_NAME, dtype_backend="numpy_nullable")
    states = states.rename(columns={"name": "method"}).dropna(subset="prediction")
    write_states(folder / STATES_NAME, states[STATES.names])
    for name in REPLACED:
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if (Path(argument) / STATES_NAME).exists():
            convert_states(Path(argument))
