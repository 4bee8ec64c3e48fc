"""Collects the ratios of benchmarks/results/*.json into ratios.csv, which the pages show.

python -m benchmarks.table
"""

import json
from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parent / "results"


def ratios() -> pd.DataFrame:
    """One row a ratio: its median over the runs, and as interval the least and the greatest."""
    rows = []
    for file in sorted(RESULTS.glob("*.json")):
        result = json.loads(file.read_text())
        model = result["figures"]["model"]
        for ratio, found in result["ratios"].items():
            ends = {"median_low": found["min"], "median_high": found["max"]}
            row = {"benchmark": result["name"], "model": model, "ratio": ratio}
            rows.append(row | {"runs": result["runs"], "median": found["median"]} | ends)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    ratios().to_csv(RESULTS / "ratios.csv", index=False)
