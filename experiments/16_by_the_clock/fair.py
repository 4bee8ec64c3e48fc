"""The fair control's table and figure, from the curves that `learning-curves` wrote.

    python experiments/16_by_the_clock/fair.py

`fair/table.csv` has the mean pass@1 after 20, 40 and 60 iterations, the lowest seed at the end and
the mean of the curve (trapezoids). `versus_rloo` is that mean less RLOO's, `verdict` that of the
verdicts less it (Welch, over seeds).
"""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis import figures
from analysis.stats.comparison import welch

HERE = Path(__file__).parent / "fair"
NAMES = {
    "verifier": "verdict on every result",
    "exact": "exact values",
    "joined_privileged": "joined, sees the answer",
    "martingale": "martingale, sees the answer",
    "partial": "RLOO, partial credit",
    "vineppo_k3": "VinePPO, K = 3",
    "joined_shrunk": "joined, shrunk root",
    "rloo_16": "RLOO, 16 rollouts",
    "rloo_8": "RLOO, 8 rollouts",
    "grpo": "GRPO",
    "rloo": "RLOO",
}


def main() -> None:
    rows = pd.read_csv(HERE / "learning_curves.csv")
    rows["method"] = rows["method"].str.removeprefix("credit_sheet_")
    curves = {  # of every method: seeds by iterations
        name: of.pivot_table(index="seed", columns="iteration", values="pass@1")
        for name, of in rows.groupby("method")
    }
    means = {
        name: np.trapezoid(curve, curve.columns, axis=1) / curve.columns[-1]
        for name, curve in curves.items()
    }
    found = []
    with figures.panels(1, 1) as (figure, (axis,)):
        for index, name in enumerate(filter(curves.__contains__, NAMES)):
            curve, versus = curves[name], welch(means[name], means["rloo"])
            at = {f"at_{iteration}": curve[iteration].mean() for iteration in curve.columns}
            row = {"method": name, "num_seeds": len(curve)} | at
            row |= {"lowest": curve.iloc[:, -1].min(), "mean_of_curve": means[name].mean()}
            row |= {"versus_rloo": versus.effect.value, "versus_rloo_low": versus.effect.low}
            lead = welch(means["verifier"], means[name]).effect
            row |= {"verdict": lead.value, "verdict_low": lead.low, "verdict_high": lead.high}
            found.append(row | {"versus_rloo_high": versus.effect.high, "p_t": versus.p_value})
            color, marker = figures.COLORS[index % len(figures.COLORS)], figures.marker(index)
            axis.plot(curve.columns, curve.mean(), label=NAMES[name], color=color, marker=marker)
        axis.set_xlabel("iteration")
        axis.set_ylabel("pass@1, mean over seeds")
        figures.shared_legend(figure, axis)
        figures.save(figure, HERE / "curves")
    pd.DataFrame(found).to_csv(HERE / "table.csv", index=False, float_format="%.6g")


if __name__ == "__main__":
    main()
