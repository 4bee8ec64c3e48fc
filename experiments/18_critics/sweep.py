"""The sweep's table, sweep.csv: what each rate's values explain of the third iteration's rewards.

python experiments/18_critics/sweep.py RUNS_DIR
"""

import json
import re
import sys
from pathlib import Path

import pandas as pd

METRIC = re.compile(r"(?:values/)?(\w+)/(explained_variance|within_problem_correlation)")

if __name__ == "__main__":
    rows: dict[tuple[str, float], dict[str, object]] = {}
    for path in sorted(Path(sys.argv[1]).glob("*/metrics.jsonl")):
        factor = float(re.search(r"_x([\d.]+)_", path.parent.name)[1])
        for key, value in json.loads(path.read_text().splitlines()[-1]).items():
            if match := METRIC.fullmatch(key):
                predictor, score = match.groups()
                row = rows.setdefault((predictor, factor), {})
                row |= {"predictor": predictor, "rate_factor": factor, score: value}
    table = pd.DataFrame(rows.values()).sort_values(["predictor", "rate_factor"])
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False, float_format="%.6f")
