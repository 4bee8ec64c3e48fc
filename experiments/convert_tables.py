"""Brings committed tables of older versions to the columns of today: `convert_tables.py FOLDER…`.

Tables of alternatives (`action-ranking`): `critic_value` becomes an entry of `predictions`.
"""

import sys
from pathlib import Path

from analysis.action_ranking import SCHEMA, find_tables
from vineppo.run_dir.tables import read_parquet, write_parquet


def convert_ranking(path: Path) -> bool:
    """Whether there was something to do."""
    rows = read_parquet(path)
    if not rows or "critic_value" not in rows[0]:
        return False
    for row in rows:
        value = row.pop("critic_value")
        row["predictions"] = {} if value is None else {"critic": value}
    write_parquet(path, rows, SCHEMA)
    return True


if __name__ == "__main__":
    for folder in map(Path, sys.argv[1:]):
        for table in find_tables(folder):
            if convert_ranking(table):
                print(table)
