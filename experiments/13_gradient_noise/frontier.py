"""Gradient variance against cost, both over RLOO's: below the diagonal more rollouts do as well.

    python experiments/13_gradient_noise/frontier.py

draws frontier.png from the gradient_variance.csv here, in further/, and of 16_gradient_noise.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter

from analysis import figures

HERE = Path(__file__).parent
SHEET = HERE.parent / "16_gradient_noise"
PANELS = {
    "credit_short, after 15 iterations": (HERE, HERE / "further"),
    "credit_sheet, after 15 iterations": (SHEET, SHEET / "further"),
}
CHECKPOINT = 15
ESTIMATORS = {
    "VinePPO, K = 1, 3, 9": ("vine_1", "vine_3", "vine_9"),
    "exact values": ("vine_oracle",),
    "martingale": ("martingale_posterior",),
    "PPO's critic": ("gae",),
    "2 and 4 cuts, K = 3, own outcome": ("expected_2_3_own", "expected_4_3_own"),
    "2 and 4 joined cuts, K = 1": ("joined_2_1", "joined_4_1"),
}


def measured(folders: tuple[Path, ...]) -> pd.DataFrame:
    """Estimator -> tokens and variance over RLOO's, with the variance's interval."""
    rows = pd.concat([pd.read_csv(folder / "gradient_variance.csv") for folder in folders])
    rows = rows[rows["checkpoint"] == CHECKPOINT].drop_duplicates(["estimator", "quantity"])
    ratio = rows[rows["quantity"] == "trace_ratio"].set_index("estimator")
    tokens = rows[rows["quantity"] == "num_tokens"].set_index("estimator")["value"]
    return ratio.assign(tokens=tokens / tokens["rloo"])


def main() -> None:
    with figures.panels(1, len(PANELS), margin_in=1.3) as (figure, axes):
        for axis, (title, folders) in zip(axes, PANELS.items(), strict=True):
            points = measured(folders)
            costs = np.geomspace(0.8, 130, 50)
            axis.plot(costs, 1 / costs, color="0.6", linestyle=":", label="simply more rollouts")
            for index, (label, names) in enumerate(ESTIMATORS.items()):
                frame = points.loc[list(names)]
                color, place = figures.estimator_color(names[0]), 1 + 0.04 * (index - 2)
                axis.vlines(frame["tokens"] * place, frame["value_low"], frame["value_high"], color)
                marker = figures.marker(index)
                axis.plot(frame["tokens"] * place, frame["value"], marker, color=color, label=label)
            axis.set(title=title, xlabel="sampled tokens over RLOO's", yscale="log", ylim=(0.1, 2))
            figures.logarithmic(axis, 0.8, 130, StrMethodFormatter("{x:g}"))
            axis.set_yticks([0.1, 0.3, 1], ["0.1", "0.3", "1"])
            axis.set_yticks([], minor=True)
        figures.label_rows(axes, "gradient variance over RLOO's")
        figures.legend_below(figure, axes[0])
        figures.save(figure, HERE / "frontier")


if __name__ == "__main__":
    main()
