"""The sweep's table: mean training reward by run, and each method's best rate by it.

The best rate by the last 20 iterations stands beside it.

    python experiments/11_credit/sweep.py RUNS_DIR [TABLE.csv]

The rate is that in the run's name: the policy's, of ppo_bigger (12) the critic's.
Rows of runs that are not in RUNS_DIR stay as they are.
"""

import csv
import json
import sys
from pathlib import Path

TABLE = Path(__file__).with_suffix(".csv")
KEY = ("method", "learning_rate", "seed")
COLUMNS = (*KEY, "reward", "reward_last_20", "num_iterations")


def main(runs: Path, table: Path = TABLE) -> None:
    rows = {}
    if table.exists():
        with table.open(newline="") as file:
            rows = {tuple(row[key] for key in KEY): row for row in csv.DictReader(file)}
    for run in sorted(runs.iterdir()):
        if not (run / "final").is_dir():
            continue
        config = json.loads((run / "config.json").read_text())
        lines = (run / "metrics.jsonl").read_text().splitlines()
        rewards = [json.loads(line)["reward/mean"] for line in lines]
        method, _, rate = config["name"].removeprefix("credit_short_").rpartition("_")
        key = method, str(float(rate)), str(config["seed"])
        means = f"{sum(rewards) / len(rewards):.4f}", f"{sum(rewards[-20:]) / 20:.4f}"
        rows[key] = dict(zip(COLUMNS, [*key, *means, len(rewards)], strict=True))
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))
    for method in dict.fromkeys(key[0] for key in sorted(rows)):
        for score in ("reward", "reward_last_20"):
            by_rate: dict[str, list[float]] = {}
            for key, row in rows.items():
                if key[0] == method:
                    by_rate.setdefault(key[1], []).append(float(row[score]))
            means = {rate: sum(own) / len(own) for rate, own in by_rate.items()}
            best = max(means, key=lambda rate: means[rate])
            print(method, score, best, {r: f"{mean:.3f}" for r, mean in sorted(means.items())})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
