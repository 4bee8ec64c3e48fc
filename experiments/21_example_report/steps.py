"""steps.py RUN OUT.csv: the steps of every rollout of a run's first iteration, with true values.

One row a step: its text, the value of the state before it by fresh continuations (empty where that
state was not drawn), and the response's reward.
"""

import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
from pyarrow.parquet import read_table

from analysis.frames import read_run
from analysis.rollout_files import find_tokenizer

run_path, out = Path(sys.argv[1]), sys.argv[2]
tokenizer = find_tokenizer(read_run(run_path))
assert tokenizer is not None
(truth_file,) = run_path.glob("**/ground_truth/**/iter_000000.parquet")
truths = {
    (row["problem_id"], row["rollout_index"], row["step_index"]): row
    for row in read_table(truth_file).to_pylist()
}
# States with the same tokens are drawn once, for one of the rollouts that pass them.
by_prefix = {}
rollouts = read_table(run_path / "rollouts/iter_000001.parquet").to_pylist()
for rollout in rollouts:
    for step, start in enumerate(rollout["step_starts"]):
        key = (rollout["problem_id"], rollout["rollout_index"], step)
        if key in truths:
            by_prefix[rollout["problem_id"], tuple(rollout["response_ids"][:start])] = truths[key]
rows = []
for rollout in rollouts:
    ids = rollout["response_ids"]
    for step, (start, end) in enumerate(pairwise([*rollout["step_starts"], len(ids)])):
        truth = by_prefix.get((rollout["problem_id"], tuple(ids[:start])))
        rows.append(
            {
                "problem_id": rollout["problem_id"],
                "rollout_index": rollout["rollout_index"],
                "reward": rollout["reward"],
                "step_index": step,
                "text": tokenizer.decode(ids[start:end], skip_special_tokens=True),
                "num_correct": None if truth is None else truth["num_correct"],
                "num_samples": None if truth is None else truth["num_samples"],
            }
        )
frame = pd.DataFrame(rows).astype({"num_correct": "Int64", "num_samples": "Int64"})
frame["value"] = frame.num_correct / frame.num_samples
frame.to_csv(out, index=False)
