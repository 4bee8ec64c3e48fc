"""The sweep's table, sweep.csv: what each run came to on train problems, and the best by method.

    python experiments/17_without_rl/sweep.py RUNS_DIR

pass@1 is that of the held-out train problems after the last iteration; of reinforcement learning,
the mean reward of the fourth iteration's rollouts, which are of the policy after three.
"""

import json
import sys
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent

if __name__ == "__main__":
    rows = []
    for final in sorted(Path(sys.argv[1]).glob("*/final")):
        run = final.parent
        config = json.loads((run / "config.json").read_text())
        last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
        restart = config.get("self_training", {}).get("restart")
        rows.append(
            {
                "method": run.name.rsplit("_", 1 if restart is None else 2)[0],
                "learning_rate": config["optimization"]["learning_rate"],
                "restart": restart,
                "seed": config["seed"],
                "pass@1": last.get("self_training/validation", last["reward/mean"]),
            }
        )
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "sweep.csv", index=False, float_format="%.6g")
    print(table.loc[table.groupby("method")["pass@1"].idxmax()].to_string(index=False))
