"""Predicted against true values of GSM8K's lines: a tuned critic, and 1, 3 and 9 continuations.

    python experiments/19_real_model/scatter.py

draws scatter.png from gsm8k/value_accuracy_states.parquet: every state is a dot.
"""

from pathlib import Path

import pandas as pd

from analysis import figures

HERE = Path(__file__).parent
PREDICTORS = {
    "sft_gsm8k_half_1e-05_1e-4_1": ("tuned critic", figures.COLORS[1]),
    "mc_1": ("1 continuation", figures.COLORS[0]),
    "mc_3": ("3 continuations", figures.COLORS[0]),
    "mc_9": ("9 continuations", figures.COLORS[0]),
}


def main() -> None:
    states = pd.read_parquet(HERE / "gsm8k" / "value_accuracy_states.parquet")
    states = states[states["step_index"] > 0]  # boundaries, no queries
    truth = states["num_correct"] / states["num_samples"]
    with figures.panels(1, len(PREDICTORS)) as (figure, axes):
        figure.set_size_inches(7, 2.2)
        for axis, (name, (label, color)) in zip(axes, PREDICTORS.items(), strict=True):
            is_shown = states["predictor"] == name
            axis.plot([0, 1], [0, 1], color="0.7", linewidth=0.6, zorder=0)
            axis.plot(
                states["prediction"][is_shown], truth[is_shown], "o", color=color, alpha=0.4, mew=0
            )
            axis.set(title=label, xlabel="predicted value", xlim=(-0.03, 1.03), aspect="equal")
        figures.label_rows(axes, "true value (256 continuations)")
        figures.save(figure, HERE / "scatter")


if __name__ == "__main__":
    main()
