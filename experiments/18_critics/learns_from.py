"""learns_from.py RUNS_DIR: what the critics of learns_from.jsonnet's runs know of the outcomes.

Writes learns_from.csv beside this file: means over the last twenty iterations of a run.
"""

import sys
from pathlib import Path

import pandas as pd

COLUMNS = ("explained_variance", "within_problem_correlation", "value_std")

if __name__ == "__main__":
    rows = []
    for path in sorted(Path(sys.argv[1]).glob("credit_sheet_ppo_*/metrics.jsonl")):
        method, _, seed = path.parent.name.rpartition("_seed")
        last = pd.read_json(path, lines=True).tail(20)
        taught_by = method.removeprefix("credit_sheet_ppo_")
        row = {"taught_by": taught_by, "seed": seed, "reward": last["reward/mean"].mean()}
        rows.append(row | {name: last[f"critic/{name}"].mean() for name in COLUMNS})
    table = pd.DataFrame(rows)
    table.to_csv(Path(__file__).with_name("learns_from.csv"), index=False, float_format="%.4f")
    print(table)
