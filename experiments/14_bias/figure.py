"""The bias of every estimator, as a share of the true gradient's length, with intervals.

    python experiments/14_bias/figure.py

draws bias.png from bias.csv and unbiased.csv.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis import figures

HERE = Path(__file__).parent
# Of the estimators that are called unbiased: the rest lie as these do.
SHOWN = ("rloo", "vine, K = 1", "vine, K = 3", "vine, K = 9", "vine, expected cuts")
SHOWN += ("doubly_robust, wrong critic", "joined, wrong martingale", "tree, others, by leaves")

NAMES = {
    "^vine": "VinePPO",
    "^gae": "GAE",
    "^rloo": "RLOO",
    "^grpo": "GRPO",
    "^spo_chain": "SPO-chain",
    "^doubly_robust": "doubly robust",
    "^reinforce_plus_plus": "REINFORCE++",
    "_": " ",
}


def main() -> None:
    unbiased = pd.read_csv(HERE / "unbiased.csv")
    unbiased = unbiased[unbiased["estimator"].isin(SHOWN)]
    biased = pd.read_csv(HERE / "bias.csv").sort_values("bias")
    rows = pd.concat([unbiased, biased]).iloc[::-1]
    places = np.arange(len(rows))
    colors = np.where(rows["is_unbiased"], *figures.OTHER_COLORS[1::-1])
    with figures.panels(1, 1) as (figure, (axis,)):
        figure.set_size_inches(6.5, 0.17 * len(rows) + 0.6)
        axis.hlines(places, rows["bias_low"], rows["bias_high"], color=colors)
        axis.scatter(rows["bias"], places, s=12, c=colors)
        axis.axvline(0, color="0.7", linewidth=0.6, zorder=0)
        axis.set(yticks=places, yticklabels=rows["estimator"].replace(NAMES, regex=True))
        axis.set_xlabel("bias, as a share of the true gradient's length (1,000,000 rollouts)")
        axis.margins(y=0.02)
        figures.save(figure, HERE / "bias")


if __name__ == "__main__":
    main()
