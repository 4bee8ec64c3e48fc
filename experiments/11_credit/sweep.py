"""The sweep's table: the mean training reward of the last 20 iterations, a row a run."""

import csv
import json
import sys
from pathlib import Path

COLUMNS = ("method", "learning_rate", "seed", "reward_first_20", "reward_last_20", "num_iterations")


def main(runs: Path) -> None:
    rows = []
    for run in sorted(runs.iterdir()):
        if not (run / "final").is_dir():
            continue
        config = json.loads((run / "config.json").read_text())
        lines = (run / "metrics.jsonl").read_text().splitlines()
        rewards = [json.loads(line)["reward/mean"] for line in lines]
        method = config["name"].removeprefix("credit_short_")
        rate = config["optimization"]["learning_rate"]
        first, last = (round(sum(part) / 20, 4) for part in (rewards[:20], rewards[-20:]))
        rows.append((method, rate, config["seed"], first, last, len(rewards)))
    with (Path(__file__).parent / "sweep.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS, *sorted(rows)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
