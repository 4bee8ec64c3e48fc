"""pieces.py RUNS_DIR: what the iteration of each piece left, as pieces.csv beside this file."""

import csv
import json
import sys
from pathlib import Path

COLUMNS = {
    "reward": "reward/mean",
    "response_tokens": "rollout/response_length_mean",
    "policy_loss": "policy/loss",
    "policy_grad_norm": "policy/grad_norm",
    "rollout_tokens": "tokens/rollout",
    "value_tokens": "tokens/values",
    "seconds": "time/total_s",
}


def main(runs: Path) -> None:
    rows = []
    for path in sorted(runs.glob("piece_*/metrics.jsonl")):
        metrics = json.loads(path.read_text().splitlines()[-1])
        values = sorted(
            {
                name.split("/")[1]
                for name in metrics
                if name.startswith("values/") and name.count("/") == 2
            }
        )
        row = {name: metrics.get(key) for name, key in COLUMNS.items()}
        row = {name: round(x, 5) if isinstance(x, float) else x for name, x in row.items()}
        piece = path.parent.name.removeprefix("piece_").removesuffix("_seed0")
        rows.append({"piece": piece, **row, "values": " ".join(values)})
    with (Path(__file__).parent / "pieces.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["piece", *COLUMNS, "values"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
