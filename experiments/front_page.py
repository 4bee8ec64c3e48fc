"""front_page.py: draws experiments/front_page.png, the README's picture, from committed tables.

Left: a wrong answer to a GSM8K problem, its steps coloured by advantage, beside the true value of
each state. Right: predicted against true values on GSM8K, by a critic and by nine continuations.
"""

import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

HERE = Path(__file__).parent
STEPS = HERE / "21_example_report/steps.csv"
STATES = HERE / "19_real_model/gsm8k/value_accuracy_states.parquet"
ROLLOUT = ("gsm8k/train/0", 0)  # of STEPS
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#7F7F7F"
WIDTH = 54  # characters a line


def draw_steps(axes: Axes) -> None:
    steps = pd.read_csv(STEPS)
    steps = steps[(steps.problem_id == ROLLOUT[0]) & (steps.rollout_index == ROLLOUT[1])]
    values = (steps.num_correct / steps.num_samples).to_numpy()
    ends = np.append(values, steps.reward.iloc[0])
    gains = np.diff(ends)
    norm, colors = TwoSlopeNorm(0, -1, 1), mpl.colormaps["RdBu"]
    texts = ["\n".join(textwrap.wrap(text.strip(), WIDTH)) for text in steps.text]
    heights = np.array([text.count("\n") + 1.7 for text in texts])
    tops = np.append(0, heights.cumsum())
    for text, gain, top, height in zip(texts, gains, tops, heights, strict=False):
        axes.add_patch(
            mpl.patches.Rectangle((0, top + 0.1), 1, height - 0.2, color=colors(norm(gain * 0.8)))
        )
        dark = "white" if abs(gain) > 0.55 else "black"
        axes.text(0.015, top + height / 2, text, va="center", size=7.5, color=dark)
    place = 1.08 + 0.5 * ends
    axes.plot(place, tops, "o-", color="black", lw=1.2, ms=4, clip_on=False)
    for x, y, value in zip(place, tops, ends, strict=True):
        axes.annotate(
            f"{value:.2f}", (x, y), (5, 0), textcoords="offset points", size=7.5, va="center"
        )
    for value in (0, 1):
        axes.axvline(1.08 + 0.5 * value, color="#DDDDDD", lw=0.8, zorder=0)
    axes.text(1.33, -1.1, "true value of the state", ha="center", size=8)
    axes.text(0, -1.1, "a wrong answer, step by step (red: advantage < 0)", size=8)
    axes.set(xlim=(0, 1.7), ylim=(tops[-1] + 0.6, -2))
    axes.axis("off")


def draw_scatter(axes: Axes) -> None:
    states = pd.read_parquet(STATES)
    truth = states.num_correct / states.num_samples
    axes.plot([0, 1], [0, 1], color=GREY, lw=1)
    for name, label, color in (
        ("critic", "PPO's critic", VERMILION),
        ("mc_9", "nine continuations", BLUE),
    ):
        chosen = (states.predictor == name) & (states.step_index > 0)
        axes.scatter(states.prediction[chosen], truth[chosen], s=14, alpha=0.7, lw=0, color=color)
        axes.plot([], [], "o", color=color, label=label)
    axes.set(xlabel="predicted value", ylabel="true value (256 continuations)", aspect="equal")
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", fontsize=8, handletextpad=0)
    axes.set_title("states of GSM8K answers", size=9, loc="left")


def main() -> None:
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8})
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1))
    draw_steps(left)
    draw_scatter(right)
    figure.savefig(HERE / "front_page.png", dpi=160, metadata={"Software": None})


if __name__ == "__main__":
    main()
