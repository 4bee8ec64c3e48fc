"""What the adviser predicts beside what the gradients show, of the same policies.

    python experiments/13_gradient_noise/predicted.py FOLDER ADVICE_DIR...

Each directory is an `advise --out` of the run of FOLDER's gradient_variance.csv, or of that of its
demo/, at one of its checkpoints. Writes into FOLDER predicted.csv, noise and noise times seconds
over RLOO's, predicted and measured, and ranks.csv, Spearman's correlation of the two over the
estimators.
"""

import sys
from pathlib import Path

import pandas as pd
from scipy.stats import spearmanr

from analysis.estimators import BOUND

MEASURED = {r"^vine_oracle$": BOUND}  # the only one that the adviser calls otherwise
NUMBERS = {"noise": "trace_ratio", "noise_seconds": "trace_time_ratio"}

KEYS = ["method", "checkpoint", "estimator"]

if __name__ == "__main__":
    folder, *advice = map(Path, sys.argv[1:])
    tables = [*folder.glob("gradient_variance.csv"), *folder.glob("demo/gradient_variance.csv")]
    measured = pd.concat(map(pd.read_csv, tables)).replace({"estimator": MEASURED}, regex=True)
    predicted = pd.concat(pd.read_csv(path / "advise.csv") for path in advice)
    rows = predicted.rename(columns={"last_iteration": "checkpoint"}).set_index(KEYS)
    columns = {"values_by": rows["values_by"]}
    for name, trace in NUMBERS.items():
        found = measured[measured["quantity"] == trace].set_index(KEYS)
        for end in ("", "_low", "_high"):
            columns[f"predicted_{name}{end}"] = rows[f"{name}{end}"]
            columns[f"measured_{name}{end}"] = found[f"value{end}"]
    both = pd.DataFrame(columns).dropna(subset=["predicted_noise", "measured_noise"])
    both.to_csv(folder / "predicted.csv", float_format="%.4g")
    ranks = both.groupby(level=["method", "checkpoint"]).apply(
        lambda of: pd.Series(
            {"estimators": len(of)}
            | {n: spearmanr(of[f"predicted_{n}"], of[f"measured_{n}"]).statistic for n in NUMBERS}
        )
    )
    ranks.to_csv(folder / "ranks.csv", float_format="%.3f")
    print(ranks)
