"""frontier.py: draws frontier.png, gradient variance against sampled tokens, both relative to RLOO.

On the diagonal an estimator is worth as many more rollouts as its tokens would buy.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import GREY, MARKERS, METHOD_COLORS

HERE = Path(__file__).parent
SHEET = HERE.parent / "16_gradient_noise"
CHECKPOINT = 15
# (label, colour, its estimators)
SERIES = (
    ("RLOO", METHOD_COLORS["RLOO"], ("rloo",)),
    ("PPO's critic", METHOD_COLORS["PPO"], ("gae",)),
    ("lagging count of skills", GREY, ("vine_oracle",)),
    (
        "VinePPO, K = 1, 3, 9",
        METHOD_COLORS["VinePPO"],
        ("vine_1", "vine_3", "vine_9"),
    ),
    (
        "VinePPO at 1, 2, 4 states",
        METHOD_COLORS["cuts by expectation"],
        ("expected_1_1_own", "expected_2_3_own", "expected_4_3_own"),
    ),
    (
        "joined with rewards",
        METHOD_COLORS["joined"],
        ("joined_1_1", "joined_2_1", "joined_4_1", "joined_4_3"),
    ),
)


def draw(axes: Axes, frame: pd.DataFrame, title: str) -> None:
    frame = frame[frame.checkpoint == CHECKPOINT].drop_duplicates(["estimator", "quantity"])
    tokens = frame[frame.quantity == "num_tokens"].set_index("estimator").value
    ratios = frame[frame.quantity == "trace_ratio"].set_index("estimator")
    x = np.geomspace(0.7, 200, 50)
    axes.plot(x, 1 / x, color="black", lw=0.8, ls="--", zorder=0)
    for (_, color, names), marker in zip(SERIES, MARKERS, strict=False):
        held = [name for name in names if name in ratios.index]
        if not held:
            continue
        y, low, high = (ratios.loc[held, c] for c in ("value", "value_low", "value_high"))
        cost = tokens[held] / tokens["rloo"]
        bars = [y - low, high - y]
        axes.errorbar(cost, y, bars, color=color, marker=marker, ms=4, lw=1, elinewidth=0.7)
    axes.set(xscale="log", yscale="log", xlim=(0.7, 200), ylim=(0.1, 2), title=title)
    axes.set_xlabel("sampled tokens, relative to RLOO")
    axes.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8})
    short, sheet = (
        pd.concat([pd.read_csv(folder / part / "gradient_variance.csv") for part in (".", more)])
        for folder, more in ((HERE, "further"), (SHEET, "joined"))
    )
    sheet = sheet[sheet.run == "noise"]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    draw(left, short, "credit_short")
    draw(right, sheet, "credit_sheet")
    left.set_ylabel("gradient variance, relative to RLOO")
    left.text(3.4, 0.155, "simply more rollouts", rotation=-58)
    for (label, color, _), marker in zip(SERIES, MARKERS, strict=False):
        left.plot([], [], marker, ls="-", color=color, ms=4, lw=1, label=label)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(HERE / "frontier.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    main()
