"""The fair control's table and figure, from the curves that `learning-curves` wrote.

    python experiments/16_by_the_clock/fair.py

`fair/table.csv` has the mean pass@1 after some iterations, the lowest seed at the end, the mean of
the curve (trapezoids), and sampled tokens of an iteration. `less_rloo` is the mean of the curve
less RLOO's, and so on (Welch, over seeds). `p_t` is of `less_rloo`. `seconds` are the median of an
iteration in `fair/seconds.csv`, where methods ran beside each other. Methods of 128 rollouts an
update end in `_wide`; theirs is the RLOO of as many.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis import figures
from analysis.stats.comparison import welch

HERE = Path(__file__).parent / "fair"
SHOWN = {
    "verifier": "verdict on every result",
    "exact": "closed-form values",
    "martingale": "martingale, sees the answer",
    "rloo_16": "RLOO, 16 rollouts",
    "vineppo": "VinePPO, K = 3",
    "ppo": "PPO",
    "reinforce": "no baseline",
    "rloo": "RLOO",
}
WIDE = "_wide"
BESIDE = ("rloo", "verifier", "rloo_8", "rloo_16", "ppo", "reinforce")


def main() -> None:
    wide = pd.read_csv(HERE / "wide_curves.csv")
    wide["method"] += WIDE
    rows = pd.concat([pd.read_csv(HERE / "learning_curves.csv"), wide])
    rows["method"] = rows["method"].str.removeprefix("credit_sheet_")
    seconds = pd.read_csv(HERE / "seconds.csv").groupby("method")["seconds"].median()
    curves = {  # of every method: seeds by iterations
        name: of.pivot_table(index="seed", columns="iteration", values="pass@1")
        for name, of in rows.groupby("method")
    }
    means = {
        name: np.trapezoid(curve, curve.columns, axis=1) / curve.columns[-1]
        for name, curve in curves.items()
    }
    is_last = rows["iteration"] == rows.groupby("method")["iteration"].transform("max")
    last = rows[is_last].groupby("method")
    tokens = last["tokens_sampled"].mean() / last["iteration"].mean()
    found = []
    for name, curve in curves.items():
        row = {"method": name, "num_seeds": len(curve)}
        row |= {f"at_{iteration}": curve[iteration].mean() for iteration in curve.columns}
        row |= {"lowest": curve.iloc[:, -1].min(), "mean_of_curve": means[name].mean()}
        row |= {"tokens": tokens[name], "seconds": seconds.get(name)}
        is_wide = name.endswith(WIDE)
        for other in BESIDE[:1] if is_wide else BESIDE:
            lead = welch(means[name], means[other + WIDE * is_wide])
            keys = (f"less_{other}{end}" for end in ("", "_low", "_high"))
            row |= zip(keys, (lead.effect.value, lead.effect.low, lead.effect.high), strict=True)
            if other == BESIDE[0]:
                row["p_t"] = lead.p_value
        found.append(row)
    pd.DataFrame(found).to_csv(HERE / "table.csv", index=False, float_format="%.6g")
    with figures.panels(1, 1) as (figure, (axis,)):
        for index, (name, label) in enumerate(SHOWN.items()):
            mean, marker = curves[name].mean(), figures.marker(index)
            axis.plot(mean.index, mean, label=label, color=figures.COLORS[index], marker=marker)
        axis.set_xlabel("iteration")
        axis.set_ylabel("pass@1, mean over seeds")
        figures.shared_legend(figure, axis)
        figures.save(figure, HERE / "curves")


if __name__ == "__main__":
    main()
