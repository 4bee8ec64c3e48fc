"""learning.py RUNS_DIR: what the runs of learning.jsonnet came to, into learning.csv beside it.

Rows of runs that are not there, or not at their end, stay.

Rewards are means of the first and last ten iterations, tokens and what a critic explains of all,
seconds the median; pass@1 has a 95 % interval of its change over problems (Student's t of the
paired differences).
"""

import json
import sys
from pathlib import Path

import pandas as pd
from scipy import stats

HERE = Path(__file__).parent
NUM = 10


def accuracies(run: Path, iteration: int) -> "pd.Series[float]":
    """By problem."""
    found = json.loads((run / "evaluations" / f"iter_{iteration:06d}.json").read_text())
    return pd.Series(found["num_correct_P"]) / found["samples_per_problem"]


def row(run: Path) -> dict[str, object]:
    metrics = pd.read_json(run / "metrics.jsonl", lines=True)
    method, seed = run.name.removeprefix("real_").split("_seed")
    before, after = accuracies(run, 0), accuracies(run, int(metrics["iteration"].iloc[-1]))
    change = after - before
    low, high = stats.t.interval(0.95, len(change) - 1, change.mean(), stats.sem(change))
    return {
        "method": method,
        "seed": int(seed),
        "iterations": len(metrics),
        "reward_first": metrics["reward/mean"][:NUM].mean(),
        "reward_last": metrics["reward/mean"][-NUM:].mean(),
        "sampled_tokens": (metrics["tokens/rollout"] + metrics["tokens/values"]).mean(),
        "seconds": metrics["time/total_s"].median(),
        "explained_variance": metrics.get("critic/explained_variance", pd.Series()).mean(),
        "pass_before": before.mean(),
        "pass_after": after.mean(),
        "change": change.mean(),
        "change_low": low,
        "change_high": high,
    }


if __name__ == "__main__":
    table, key = HERE / "learning.csv", ["method", "seed"]
    runs = sorted(path.parent for path in Path(sys.argv[1]).glob("real_*/final"))
    found = pd.concat([pd.read_csv(table), pd.DataFrame([row(run) for run in runs]).round(4)])
    found.drop_duplicates(key, keep="last").sort_values(key).to_csv(table, index=False)
