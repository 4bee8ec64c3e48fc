"""What the adviser predicts beside the noise that the gradients show, of the same policies.

    python experiments/13_gradient_noise/predicted.py FOLDER ADVICE_DIR...

Each directory is an `advise --out` of a run of FOLDER's gradient_variance.csv. Writes into FOLDER
predicted.csv, the noise within problems over RLOO's, predicted and measured, and ranks.csv,
Spearman's correlation of the two over the estimators.
"""

import sys
from pathlib import Path

import pandas as pd
from scipy.stats import spearmanr

KEYS = ["method", "checkpoint", "estimator"]

if __name__ == "__main__":
    folder, *advice = map(Path, sys.argv[1:])
    measured = pd.read_csv(folder / "gradient_variance.csv")
    measured = measured[measured["quantity"] == "within_ratio"].set_index(KEYS)
    predicted = pd.concat(pd.read_csv(path / "advise.csv") for path in advice)
    predicted = predicted.rename(columns={"last_iteration": "checkpoint"}).set_index(KEYS)
    ends = ("", "_low", "_high")
    columns = {f"predicted{end}": predicted[f"noise{end}"] for end in ends}
    columns |= {f"measured{end}": measured[f"value{end}"] for end in ends}
    both = pd.DataFrame(columns).dropna(subset=["predicted", "measured"])
    both.to_csv(folder / "predicted.csv", float_format="%.4g")
    ranks = both.groupby(level=["method", "checkpoint"]).apply(
        lambda of: pd.Series(
            {
                "estimators": len(of),
                "rank": spearmanr(of["predicted"], of["measured"]).statistic,
            }
        )
    )
    ranks.to_csv(folder / "ranks.csv", float_format="%.3f")
    print(ranks)
