"""claims.png: what values know of differences of lines, from claims.csv.

python experiments/19_noise/figure.py
"""

from pathlib import Path

import pandas as pd

from analysis import figures

HERE = Path(__file__).parent
LABELS = {
    "mc_3": "3 continuations",
    "mc_1": "1 continuation",
    "prefixes": "learned log-ratio, prefixes",
    "end": "learned log-ratio, end",
    "answer": "true answer's log-probability",
    "centred": "the same, centred",
    "hl_gauss": "critic of histograms",
    "critic": "critic with cross-entropy",
    "log_ratio": "log-ratio to the base",
}


def main() -> None:
    rows = pd.read_csv(HERE / "claims.csv").query("metric == 'differences of lines'")
    rows = rows.set_index("predictor").loc[[*reversed(LABELS)]]
    ends = [rows["value"] - rows["value_low"], rows["value_high"] - rows["value"]]
    color = figures.COLORS[0]
    with figures.panels(1, 1, margin_in=2.5) as (figure, (axis,)):
        axis.errorbar(rows["value"], list(LABELS.values())[::-1], xerr=ends, fmt="o", color=color)
        axis.axvline(0, color=figures.GREY, linestyle=":")
        axis.set_xlabel("correlation")
        figures.save(figure, HERE / "claims")


if __name__ == "__main__":
    main()
