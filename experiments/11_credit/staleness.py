"""staleness.py RUN...: what the probes of runs say of the continuations that they keep.

Writes staleness.csv beside this file: means over the runs and twenty iterations of the columns
`values/probe/*` of docs/analysis.md.
"""

import sys
from pathlib import Path

import pandas as pd

COLUMNS = ("error", "error_earlier", "error_new", "drift")

if __name__ == "__main__":
    rows = pd.concat(
        pd.read_json(Path(run) / "metrics.jsonl", lines=True).assign(run=run)
        for run in sys.argv[1:]
    )
    rows = rows.rename(columns=lambda name: name.removeprefix("values/probe/"))
    rows = rows[rows["iteration"] > 0]
    last = (-(-rows["iteration"] // 20) * 20).astype(int).rename("last_iteration")
    by_run = rows.groupby([last, "run"])[list(COLUMNS)].mean()
    found = by_run.groupby(level=0).agg(["mean", "sem"])
    found.columns = [name if kind == "mean" else f"{name}_{kind}" for name, kind in found.columns]
    found = found.assign(runs=by_run.groupby(level=0).size())
    found.to_csv(Path(__file__).with_name("staleness.csv"), float_format="%.4f")
    print(found)
