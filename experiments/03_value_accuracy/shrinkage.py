"""What K draws are worth when they are shrunk towards the group's other rollouts: shrinkage.csv.

    python experiments/03_value_accuracy/shrinkage.py

The value is w · (mean of the K draws) + (1 − w) · (mean reward of the group's other rollouts), at
the step boundaries of checkpoint 9. w has the least squared error on the two other seeds. Both
columns of draws are the number of draws whose perfect mean has the same squared error, which is
corrected for the truth's own noise.
"""

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
STATE = ["method", "seed", "problem_id", "rollout_iteration", "rollout_index", "step_index"]
WEIGHTS = np.linspace(0, 1, 101)


def squared_errors(states: pd.DataFrame, draws: str, weights: np.ndarray) -> np.ndarray:
    """Mean squared error by weight, less the variance of the truth's own mean."""
    values = weights[:, None] * states[draws].to_numpy()
    values = values + (1 - weights[:, None]) * states["group_mean_others"].to_numpy()
    truth, num_samples = states["truth"].to_numpy(), states["num_samples"].to_numpy()
    return ((values - truth) ** 2 - truth * (1 - truth) / (num_samples - 1)).mean(axis=1)


def main() -> None:
    rows = pd.read_parquet(HERE / "value_accuracy_states.parquet")
    rows = rows[(rows["checkpoint"] == 9) & (rows["step_index"] > 0)]
    rows = rows.assign(truth=rows["num_correct"] / rows["num_samples"])
    states = rows.pivot_table(
        index=[*STATE, "truth", "num_samples"], columns="predictor", values="prediction"
    ).reset_index()
    results = []
    for method, group in states.groupby("method"):
        truth, num_samples = group["truth"], group["num_samples"]
        variance = (truth * (1 - truth) * num_samples / (num_samples - 1)).mean()
        for k in (1, 3, 9):
            errors, chosen = [], []
            for seed, own in group.groupby("seed"):
                others = group[group["seed"] != seed]
                weight = WEIGHTS[squared_errors(others, f"mc_{k}", WEIGHTS).argmin()]
                errors.append(squared_errors(own, f"mc_{k}", np.array([weight]))[0] * len(own))
                chosen.append(weight)
            alone = squared_errors(group, f"mc_{k}", np.ones(1))[0]
            results.append(
                {
                    "method": method,
                    "num_continuations": k,
                    "weight": np.mean(chosen),
                    "draws_alone": variance / alone,
                    "draws_shrunk": variance / (sum(errors) / len(group)),
                }
            )
    table = pd.DataFrame(results)
    table.to_csv(HERE / "shrinkage.csv", index=False, float_format="%.4f")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
