"""frontier.py: noise within problems against sampled tokens, both over RLOO's, in two figures.

On the diagonal an estimator is worth as many more rollouts as its tokens would buy. frontier.png
has trained policies, ../19_noise/frontier.png starting ones and real text.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import GREY, METHOD_COLORS

HERE = Path(__file__).parent
REAL = HERE.parent / "19_noise"
RLOO = METHOD_COLORS["RLOO"]
LEAST = 0.02  # of an axis
SERIES = (
    ("VinePPO, K = 1, 3 (and 9)", METHOD_COLORS["VinePPO"], "o", ("vine_1", "vine_3", "vine_9")),
    ("joined, 2 and 4 cuts", METHOD_COLORS["joined"], "s", ("joined_2_1", "joined_4_3")),
    ("with a shrunk root", METHOD_COLORS["martingale"], "^", ("joined_2_1_shrunk_mean",)),
)  # fmt: skip
BOUND = "exact"  # a line: the limit in K, which no run could pay


def draw(axes: Axes, frame: pd.DataFrame, title: str) -> None:
    tokens = frame[frame.quantity == "num_tokens"].set_index("estimator").value
    noise = frame[frame.quantity == "within_ratio"].set_index("estimator")
    x = np.geomspace(0.7, 100, 50)
    axes.plot(x, 1 / x, color="black", lw=0.8, ls="--", zorder=0)
    axes.plot(1, 1, "D", color=RLOO, ms=4)
    low, high = noise.loc[BOUND, ["value_low", "value_high"]]
    axes.axhspan(max(low, LEAST), high, color=GREY, alpha=0.25, lw=0)
    axes.axhline(noise.value[BOUND], color=GREY, lw=1)
    for _, color, marker, names in SERIES:
        held = [name for name in names if name in noise.index]
        y, low, high = (noise.loc[held, c] for c in ("value", "value_low", "value_high"))
        cost, style = tokens[held] / tokens["rloo"], {"ms": 4, "lw": 1, "elinewidth": 0.7}
        axes.errorbar(cost, y, [y - low, high - y], color=color, marker=marker, **style)
    axes.set(xscale="log", yscale="log", xlim=(0.7, 100), ylim=(LEAST, 2), title=title)
    axes.set_xlabel("sampled tokens, over RLOO's")
    axes.set_yticks([0.02, 0.1, 0.5, 1, 2], ["0.02", "0.1", "0.5", "1", "2"])
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)


def figure_of(panels: Sequence[tuple[str, pd.DataFrame]], path: Path) -> None:
    figure = Figure(figsize=(7, 2.9), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, (title, frame) in zip(axes, panels, strict=True):
        draw(axis, frame, title)
    axes[0].set_ylabel("noise within problems, over RLOO's")
    axes[0].text(0.8, 0.024, "dashed: simply more rollouts", fontsize=7)
    axes[-1].plot([], [], "D", color=RLOO, ms=4, label="RLOO")
    for label, color, marker, _ in SERIES:
        axes[-1].plot([], [], marker, ls="-", color=color, ms=4, lw=1, label=label)
    axes[-1].plot([], [], color=GREY, lw=1, label="exact values")
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=160, metadata={"Software": None})


def main() -> None:
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8})
    rows = pd.read_csv(HERE / "gradient_variance.csv")

    def at(task: str, checkpoint: int) -> pd.DataFrame:
        return rows[(rows.method == f"{task}_noise") & (rows.checkpoint == checkpoint)]

    tasks = ("credit_short", "credit_sheet")
    trained = [(f"{task}, after 30 iterations", at(task, 30)) for task in tasks]
    figure_of(trained, HERE / "frontier.png")
    starts = [(task, at(task, 0)) for task in tasks]
    real = pd.read_csv(REAL / "gradient_variance.csv")
    figure_of([*starts, ("GSM8K, 0.5 B", real)], REAL / "frontier.png")


if __name__ == "__main__":
    main()
