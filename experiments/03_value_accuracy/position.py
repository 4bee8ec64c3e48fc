"""position.py: draws position.png, the error of values by place in the response."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import METHOD_COLORS

HERE = Path(__file__).parent
PLACES = ["[0, 0.2)", "[0.2, 0.4)", "[0.4, 0.6)", "[0.6, 0.8)", "[0.8, 1)"]
SERIES = (
    ("critic", "PPO's critic", METHOD_COLORS["PPO"]),
    ("group_mean", "mean reward of the group", METHOD_COLORS["K = 0"]),
    ("mc_9", "nine continuations", METHOD_COLORS["VinePPO"]),
)


def main() -> None:
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8})
    table = pd.read_csv(HERE / "value_accuracy.csv").query(
        "method == 'long_ppo' and checkpoint == 9 and seeds == '1 2 3' and metric == 'mae'"
    )
    figure = Figure(figsize=(4.2, 2.6), layout="constrained")
    axes = figure.subplots()
    for predictor, label, color in SERIES:
        rows = table[table.predictor == predictor].set_index("stratum")
        rows = rows.loc[[f"position {place}" for place in PLACES]]
        bars = [rows.value - rows.value_low, rows.value_high - rows.value]
        axes.errorbar(
            range(5), rows.value, bars, color=color, marker="o", ms=4, lw=1.2, label=label
        )
    axes.set(ylim=(0, 0.4), xlabel="fifth of the response", ylabel="mean absolute error")
    axes.set_xticks(range(5), ["1st", "2nd", "3rd", "4th", "5th"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7, loc="upper left")
    figure.savefig(HERE / "position.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    main()
