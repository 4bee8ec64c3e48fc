"""gsm8k_lines.py STATES.parquet OUT.csv: by how much steps change the chance of success.

Of every line (or other step) between two states with a truth; that before a first one is the
problem's query.
Each has the noise of its continuations: of 64 a change is of about 0.09 where none is, of 256 of
0.04.
"""

import sys

import numpy as np
import pandas as pd

from analysis.stats import bootstrap

CHANGES = 0.1, 0.2, 0.3, 0.5
rows = pd.read_parquet(sys.argv[1])
rows = rows[rows.predictor == rows.predictor[0]]
rows = rows.assign(truth=rows.num_correct / rows.num_samples)
queries = rows[rows.step_index == 0].set_index("problem_id").truth
before = rows.set_index(["problem_id", "rollout_index", "step_index"]).truth
found = [
    (problem, abs(truth - (queries[problem] if step == 1 else before[problem, rollout, step - 1])))
    for (problem, rollout, step), truth in before.items()
    if step == 1 or (problem, rollout, step - 1) in before.index
]
problems, changes = map(np.array, zip(*found, strict=True))
generator = np.random.default_rng(bootstrap.BOOTSTRAP_SEED)
table = []
for change in CHANGES:
    share = bootstrap.bootstrap_sums(
        {"one": np.ones(len(changes)), "value": changes > change}, problems,
        {"": bootstrap.mean_of("value")},
        generator, num_resamples=2000, level=bootstrap.LEVEL,
    )[""]  # fmt: skip
    table.append(
        {"change": change, "value": share.value, "value_low": share.low, "value_high": share.high}
    )
frame = pd.DataFrame(table).assign(num_lines=len(changes), num_problems=len(set(problems)))
frame.to_csv(sys.argv[2], index=False)
