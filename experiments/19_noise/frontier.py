"""frontier.py: draws frontier.png, noise within problems against sampled tokens, both over RLOO's.

On the diagonal an estimator is worth as many more rollouts as its tokens would buy.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import GREY, METHOD_COLORS

HERE = Path(__file__).parent
NOISE = HERE.parent / "13_gradient_noise"
TASKS = {
    "credit_short": NOISE / "within_short",
    "credit_sheet": NOISE / "within_sheet",
    "GSM8K, 0.5 B": HERE,
}
SERIES = (
    ("VinePPO, K = 1, 3, 9", METHOD_COLORS["VinePPO"], "o", ("vine_1", "vine_3", "vine_9")),
    ("joined, 2 cuts, K = 1", METHOD_COLORS["joined"], "s", ("joined_2_1",)),
)
BOUNDS = ("exact", "vine_oracle")  # lines: their values cost nothing that a run could pay


def main() -> None:
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8})
    figure = Figure(figsize=(7, 2.9), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (title, folder) in zip(panels, TASKS.items(), strict=True):
        frame = pd.read_csv(folder / "gradient_variance.csv")
        tokens = frame[frame.quantity == "num_tokens"].set_index("estimator").value
        noise = frame[frame.quantity == "within_ratio"].set_index("estimator")
        x = np.geomspace(0.7, 100, 50)
        axes.plot(x, 1 / x, color="black", lw=0.8, ls="--", zorder=0)
        axes.plot(1, 1, "D", color=METHOD_COLORS["RLOO"], ms=4)
        bound = next(name for name in BOUNDS if name in noise.index)
        axes.axhspan(*noise.loc[bound, ["value_low", "value_high"]], color=GREY, alpha=0.25, lw=0)
        axes.axhline(noise.value[bound], color=GREY, lw=1)
        for _, color, marker, names in SERIES:
            held = [name for name in names if name in noise.index]
            y, low, high = (noise.loc[held, c] for c in ("value", "value_low", "value_high"))
            cost = tokens[held] / tokens["rloo"]
            axes.errorbar(
                cost, y, [y - low, high - y], color=color, marker=marker, ms=4, lw=1, elinewidth=0.7
            )
        axes.set(xscale="log", yscale="log", xlim=(0.7, 100), ylim=(0.05, 2), title=title)
        axes.set_xlabel("sampled tokens, over RLOO's")
        axes.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
        axes.set_xticks([1, 10, 100], ["1", "10", "100"])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("noise within problems, over RLOO's")
    panels[0].text(0.8, 0.06, "dashed: simply more rollouts", fontsize=7)
    axes.plot([], [], "D", color=METHOD_COLORS["RLOO"], ms=4, label="RLOO")
    for label, color, marker, _ in SERIES:
        axes.plot([], [], marker, ls="-", color=color, ms=4, lw=1, label=label)
    axes.plot([], [], color=GREY, lw=1, label="exact values")
    figure.legend(frameon=False, loc="outside lower center", ncols=4)
    figure.savefig(HERE / "frontier.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    main()
