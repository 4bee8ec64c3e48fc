"""How often 95 % intervals over seeds hold the effect: writes coverage.csv beside this file.

python experiments/10_interval_coverage/run.py
"""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.stats.comparison import coverage

NUM_SEEDS = (3, 5, 8, 10, 16)
NUM_RUNS = 2000

if __name__ == "__main__":
    rows = [row for n in NUM_SEEDS for row in coverage(n, NUM_RUNS, np.random.default_rng((0, n)))]
    table = pd.DataFrame(rows)
    table.to_csv(Path(__file__).with_name("coverage.csv"), index=False, float_format="%.4f")
    print(table.to_string(index=False))
