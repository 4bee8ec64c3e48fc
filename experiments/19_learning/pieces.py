"""pieces.py PIECES_DIR MODELS_DIR: what the iteration of each piece and the two reward models left.

As pieces.csv and reward_models.csv beside this file.
"""

import json
import sys
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
COLUMNS = {
    "reward": "reward/mean",
    "response_tokens": "rollout/response_length_mean",
    "policy_loss": "policy/loss",
    "policy_grad_norm": "policy/grad_norm",
    "rollout_tokens": "tokens/rollout",
    "value_tokens": "tokens/values",
    "peak_gib": "memory/peak_gib",
    "seconds": "time/total_s",
}


def read(path: Path) -> pd.DataFrame:
    return pd.read_json(path, lines=True)


def piece(path: Path) -> dict[str, object]:
    metrics = json.loads(path.read_text().splitlines()[-1])
    values = sorted(
        {
            name.split("/")[1]
            for name in metrics
            if name.startswith("values/") and name.count("/") == 2
        }
    )
    name = path.parent.name.removeprefix("piece_").removesuffix("_seed0")
    return {"piece": name, "values": " ".join(values)} | {
        name: metrics.get(key) for name, key in COLUMNS.items()
    }


def reward_model(path: Path) -> dict[str, object]:
    updates = read(path)
    last = updates.iloc[-1]
    return {
        "kind": path.parent.name,
        "updates": len(updates),
        "pairs": updates["reward_model/pairs"].sum(),
        "loss": last["reward_model/loss"],
        "pair_accuracy": last.get("eval/pair_accuracy"),
        "seconds": updates["time/total_s"].sum(),
    }


if __name__ == "__main__":
    pieces, models = map(Path, sys.argv[1:])
    rows = [piece(path) for path in sorted(pieces.glob("piece_*/metrics.jsonl"))]
    pd.DataFrame(rows).round(6).to_csv(HERE / "pieces.csv", index=False)
    rows = [reward_model(models / kind / "metrics.jsonl") for kind in ("outcome", "process")]
    pd.DataFrame(rows).round(6).to_csv(HERE / "reward_models.csv", index=False)
