"""Predicted against true values of steps on real text: a critic or probe, and continuations.

    python experiments/19_real_model/scatter.py

draws scatter.png here, in 19_critics and in 19_math: every state is a dot.
"""

from pathlib import Path

import pandas as pd

from analysis import figures

HERE = Path(__file__).parent
CONTINUATIONS = {"mc_1": "1 continuation", "mc_3": "3 continuations", "mc_9": "9 continuations"}
# Folder -> its states, and a learned predictor beside the continuations.
FOLDERS = {
    "19_real_model": ("gsm8k", {"sft_gsm8k_half_1e-05_1e-4_1": "tuned critic"}),
    "19_critics": (".", {"strongest": "strongest critic"}),
    "19_math": ("math", {"probe": "probe of the policy's states"}),
}


def draw(folder: Path, part: str, learned: dict[str, str]) -> None:
    states = pd.read_parquet(folder / part / "value_accuracy_states.parquet")
    states = states[states["step_index"] > 0]  # boundaries, no queries
    truth = states["num_correct"] / states["num_samples"]
    predictors = learned | CONTINUATIONS
    with figures.panels(1, len(predictors)) as (figure, axes):
        figure.set_size_inches(7, 2.2)
        for axis, (name, label) in zip(axes, predictors.items(), strict=True):
            is_shown = states["predictor"] == name
            color = figures.COLORS[name in learned]
            axis.plot([0, 1], [0, 1], color="0.7", linewidth=0.6, zorder=0)
            axis.plot(
                states["prediction"][is_shown], truth[is_shown], "o", color=color, alpha=0.4, mew=0
            )
            axis.set(title=label, xlabel="predicted value", xlim=(-0.03, 1.03), aspect="equal")
        count = states["num_samples"].max()
        figures.label_rows(axes, f"true value ({count} continuations)")
        figures.save(figure, folder / "scatter")


def main() -> None:
    for name, (part, learned) in FOLDERS.items():
        draw(HERE.parent / name, part, learned)


if __name__ == "__main__":
    main()
