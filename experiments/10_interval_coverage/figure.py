"""How often each interval holds the true difference, by the number of seeds.

    python experiments/10_interval_coverage/figure.py

draws coverage.png from coverage.csv.
"""

from pathlib import Path

import pandas as pd

from analysis import figures

HERE = Path(__file__).parent
INTERVALS = {
    "welch": "Welch",
    "bootstrap of means": "bootstrap of means",
    "bootstrap of IQMs": "bootstrap of interquartile means",
    "crossed": "crossed",
}
PANELS = {"these_problems": "on the tested problems", "new_problems": "on other problems"}


def main() -> None:
    rows = pd.read_csv(HERE / "coverage.csv")
    with figures.panels(1, 2) as (figure, axes):
        for axis, (column, title) in zip(axes, PANELS.items(), strict=True):
            for index, (interval, label) in enumerate(INTERVALS.items()):
                of = rows[rows["interval"] == interval]
                marker = figures.marker(index)
                color = figures.OTHER_COLORS[index]
                axis.plot(
                    of["num_seeds"], 100 * of[column], marker=marker, color=color, label=label
                )
            axis.axhline(95, color="0.6", linestyle=":")
            axis.set(title=title, xlabel="seeds of each method", ylim=(75, 101))
            axis.set_xticks(sorted(rows["num_seeds"].unique()))
        figures.label_rows(axes, "intervals that hold the truth, %")
        figures.shared_legend(figure, axes[0])
        figures.save(figure, HERE / "coverage")


if __name__ == "__main__":
    main()
