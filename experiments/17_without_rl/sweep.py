"""The sweep's table, sweep.csv: what each run came to on train problems, and the best by method.

    python experiments/17_without_rl/sweep.py RUNS_DIR

`score` is pass@1 of the held-out train problems after the last iteration; of reinforcement learning
in large batches the mean reward of the fourth iteration's rollouts, which are of the policy after
three; of its 60 iterations (positive) the mean of all, as in 11.
"""

import json
import sys
from pathlib import Path
from statistics import fmean

import pandas as pd

HERE = Path(__file__).parent

if __name__ == "__main__":
    rows = []
    for final in sorted(Path(sys.argv[1]).glob("*/final")):
        run = final.parent
        config = json.loads((run / "config.json").read_text())
        metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        optimization = config["optimization"]
        positive = optimization.get("positive_examples") or {}
        rewards = [row["reward/mean"] for row in metrics]
        reward = rewards[-1] if len(rewards) == 4 else fmean(rewards)
        rows.append(
            {
                "method": "_".join(part for part in run.name.split("_") if not part[0].isdigit())
                .removesuffix("_true")
                .removesuffix("_false"),
                "learning_rate": optimization["learning_rate"],
                "restart": config.get("self_training", {}).get("restart"),
                "coef": positive.get("coef"),
                "seed": config["seed"],
                "score": metrics[-1].get("self_training/validation", reward),
            }
        )
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "sweep.csv", index=False, float_format="%.6g")
    print(table.loc[table.groupby("method")["score"].idxmax()].to_string(index=False))
