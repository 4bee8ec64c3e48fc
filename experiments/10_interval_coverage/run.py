"""How often 95 % intervals over seeds hold the effect: writes coverage.csv and unequal.csv here.

python experiments/10_interval_coverage/run.py
"""

from pathlib import Path

import numpy as np
import pandas as pd
from coverage import coverage

from analysis.stats.comparison import welch

HERE = Path(__file__).parent
NUM_SEEDS = (3, 5, 8, 10, 16)
NUM_RUNS = 2000
# Seeds of a method and of its baseline, and how many times the baseline's their spread is.
UNEQUAL = [(n, 8, spread) for n in (3, 4, 8) for spread in (1, 3)]


def of_unequal(num_method: int, num_baseline: int, spread: float) -> float:
    """The share of Welch's intervals that hold 0, the effect, of normal scores."""
    generator = np.random.default_rng((1, num_method, num_baseline))
    found = (
        welch(generator.normal(0, spread, num_method), generator.normal(0, 1, num_baseline)).effect
        for _ in range(NUM_RUNS)
    )
    return float(np.mean([effect.low <= 0 <= effect.high for effect in found]))


if __name__ == "__main__":
    rows = [row for n in NUM_SEEDS for row in coverage(n, NUM_RUNS, np.random.default_rng((0, n)))]
    unequal = [
        dict(zip(("num_method", "num_baseline", "spread"), sizes, strict=True))
        | {"coverage": of_unequal(*sizes)}
        for sizes in UNEQUAL
    ]
    for name, table in (("coverage", pd.DataFrame(rows)), ("unequal", pd.DataFrame(unequal))):
        table.to_csv(HERE / f"{name}.csv", index=False, float_format="%.4f")
        print(table.to_string(index=False))
