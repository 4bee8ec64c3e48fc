"""gains.py: does an estimator's gradient noise order what it gains in learning?

Writes gains.csv, a row an estimator of both: the noise within problems over RLOO's, its mean over
checkpoints, and pass@1 after 60 iterations less RLOO's. gains_ranks.csv has Spearman's correlation
of the two by task, its 95 % bootstrap interval over seeds, and the slope of
gain = slope · (1 − noise). GRPO and REINFORCE++ are left out: their division by a deviation changes
a gradient's length.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

HERE = Path(__file__).parent
NUM_DRAWS = 2000
# By task: tables of pass@1, and the run of each estimator.
TASKS = {
    "credit_short": (
        ("11_credit/compare", "11_credit/later", "08_continuations/credit_short"),
        {"vine_oracle": "oracle", "vine_1": "vineppo_k1", "vine_3": "vineppo_k3"}
        | {"gae": "ppo", "martingale_posterior": "vine_efficient"}
        | {"tree_36_2_2": "spo_tree_others", "doubly_robust_probe_3_1": "vineppo_probe"}
        | {"joined_2_1": "joined"},
    ),
    "credit_sheet": (
        ("16_by_the_clock/compare",),
        {"vine_oracle": "oracle", "vine_3": "vineppo_k3", "gae": "ppo", "joined_2_1": "joined"}
        | {"martingale_posterior": "vine_efficient", "martingale_privileged": "vine_privileged"}
        | {"surprisal_2_3": "cuts", "expected_2_3_own": "expected"}
        | {"joined_privileged_2_1": "joined_privileged_slower", "gae_shrunk_mean": "rloo_shrunk"},
    ),
}


def scores(folder: str) -> pd.Series:
    """pass@1 after 60 iterations, by method and seed."""
    rows = pd.read_parquet(HERE.parent / folder / "evaluations.parquet").query("iteration == 60")
    sums = rows.groupby(["method", "seed"])[["num_correct", "num_samples"]].sum()
    return sums["num_correct"] / sums["num_samples"]


def main() -> None:
    rng = np.random.default_rng(0)
    pairs, ranks = [], []
    rows = pd.read_csv(HERE / "gradient_variance.csv").query("quantity == 'within_ratio'")
    for task, (learned, run_of) in TASKS.items():
        table = rows[rows["method"] == f"{task}_noise"]
        noise = table.groupby("estimator")["value"].mean()[["rloo", *run_of]].to_numpy()
        pass_at_1 = pd.concat(map(scores, learned))
        beside = dict.fromkeys(run_of, "rloo")  # the RLOO runs that a method's stood beside
        if task == "credit_short":  # joined values came later, beside RLOO run anew
            later = pd.read_csv(HERE.parent / "11_credit/joined_runs.csv")
            later["method"] = later["method"].replace("credit_short_rloo", "credit_short_rloo_anew")
            pass_at_1 = pd.concat([pass_at_1, later.set_index(["method", "seed"])["pass@1"]])
            beside["joined_2_1"] = "rloo_anew"
        pass_at_1 = pass_at_1[~pass_at_1.index.duplicated()]
        seeds = {
            name: pass_at_1[f"{task}_{name}"].to_numpy()
            for name in {*run_of.values(), *beside.values()}
        }

        def gains(of: dict, run_of: dict = run_of, beside: dict = beside) -> np.ndarray:
            return np.array([0.0, *(of[run_of[e]].mean() - of[beside[e]].mean() for e in run_of)])

        found = gains(seeds)
        drawn = [
            gains({k: rng.choice(v, len(v)) for k, v in seeds.items()}) for _ in range(NUM_DRAWS)
        ]
        low, high = np.percentile([spearmanr(noise, g).statistic for g in drawn], [2.5, 97.5])
        less = 1 - noise
        pairs += [
            {"task": task, "estimator": e, "noise": n, "gain": g}
            for e, n, g in zip(["rloo", *run_of], noise, found, strict=True)
        ]
        ranks.append(
            {"task": task, "num_estimators": len(noise)}
            | {"rank": spearmanr(noise, found).statistic, "rank_low": low, "rank_high": high}
            | {"slope": found @ less / (less @ less)}
        )
    pd.DataFrame(pairs).to_csv(HERE / "gains.csv", index=False, float_format="%.4g")
    pd.DataFrame(ranks).to_csv(HERE / "gains_ranks.csv", index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
