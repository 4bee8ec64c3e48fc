"""Seconds of an iteration with each kind of values, over that of GRPO with none: seconds.csv.

python experiments/18_critics/seconds.py RUNS_DIR
"""

import re
import sys
from pathlib import Path

import pandas as pd

NOT_LEARNING = ["time/evaluate_s", "time/checkpoint_s"]

if __name__ == "__main__":
    seconds = {}
    for path in sorted(Path(sys.argv[1]).glob("seconds_*/metrics.jsonl")):
        # The first iteration starts the engine.
        rows = pd.read_json(path, lines=True).iloc[1:]
        spent = rows["time/total_s"] - rows.reindex(columns=NOT_LEARNING).fillna(0).sum(axis=1)
        seconds[re.search(r"seconds_(\w+)_seed", path.parent.name)[1]] = spent.median()
    table = pd.DataFrame({"seconds": seconds}).rename_axis("predictor")
    table["over_grpo"] = table["seconds"] / table.loc["none", "seconds"]
    table.to_csv(Path(__file__).with_suffix(".csv"), float_format="%.4f")
