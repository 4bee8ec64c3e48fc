"""Three tables of finished runs: seconds.csv, reward_models.csv and generative.csv.

    python experiments/18_critics/tables.py RUNS_DIR

Seconds of an iteration with each kind of values, over that of GRPO with none; what each rate makes
of a reward model's held-out pairs; and what the policy earns while it learns to write its values.
"""

import json
import re
import sys
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
NOT_LEARNING = ["time/evaluate_s", "time/checkpoint_s"]


def seconds_of(runs: Path) -> pd.DataFrame:
    seconds = {}
    for path in sorted(runs.glob("18_critics_seconds/seconds_*/metrics.jsonl")):
        # The first iteration starts the engine.
        rows = pd.read_json(path, lines=True).iloc[1:]
        spent = rows["time/total_s"] - rows.reindex(columns=NOT_LEARNING).fillna(0).sum(axis=1)
        seconds[re.search(r"seconds_(\w+)_seed", path.parent.name)[1]] = spent.median()
    table = pd.DataFrame({"seconds": seconds}).rename_axis("predictor")
    return table.assign(over_grpo=table["seconds"] / table.loc["none", "seconds"])


def reward_models(runs: Path) -> pd.DataFrame:
    rows = []
    for path in sorted(runs.glob("18_critics_reward_models/*/metrics.jsonl")):
        updates = pd.read_json(path, lines=True)
        kind, rate = path.parent.name.split("_")
        last = updates.iloc[-1]
        rows.append(
            {"kind": kind, "learning_rate": rate, "pairs": updates["reward_model/pairs"].sum()}
            | {key: last[f"eval/{key}"] for key in ("pair_accuracy", "pair_log_loss")}
        )
    return pd.DataFrame(rows).set_index("kind")


def generative(runs: Path) -> pd.DataFrame:
    """By iteration, before the training that ends it."""
    parts = []
    for path in sorted(runs.glob("18_critics_generative*/**/metrics.jsonl")):
        config = json.loads((path.parent / "config.json").read_text())
        rate = config["values"]["predictors"]["judge"]["training"]["learning_rate"]
        about = {"learning_rate": f"{rate:g}", "seed": config["seed"]}
        names = {"iteration": "iteration", "reward/mean": "reward"}
        names |= {f"values/judge/{key}": key for key in ("brier", "unread_frac")}
        rows = pd.read_json(path, lines=True)[[*names]].rename(columns=names)
        parts.append(rows.assign(**about))
    return pd.concat(parts).set_index([*about])


TABLES = {"seconds": seconds_of, "reward_models": reward_models, "generative": generative}

if __name__ == "__main__":
    for name, make in TABLES.items():
        make(Path(sys.argv[1])).to_csv(HERE / f"{name}.csv", float_format="%.4f")
