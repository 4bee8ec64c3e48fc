"""front_page.py: draws experiments/front_page.png, the README's picture, from committed tables.

Left: a wrong answer to a GSM8K problem, its steps coloured by advantage, beside the value of each
state. Right: predicted against true values on GSM8K, by a critic and by nine continuations.
"""

import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from analysis import figures

HERE = Path(__file__).parent
STEPS = HERE / "21_example_report/steps.csv"
STATES = HERE / "19_real_model/gsm8k/value_accuracy_states.parquet"
ROLLOUT = ("gsm8k/train/1", 1)  # of STEPS
PROBLEM = """Barry bought 12 pretzels, Shelly half as many,
Angie three times as many as Shelly: how many?"""
WIDTH = 50  # characters a line
PLAIN = {
    r"\\text\{([^}]*)\}": r"\1",
    r"\\times": "×",
    r"\\boxed\{([^}]*)\}": r"\1",
    r"\\[\[\]()]": "",
}
SMALL = 7.9  # points: 7 at page width
LEFT, SPAN = 1.05, 0.2  # where the curve of values begins, and its width


def read_steps() -> pd.DataFrame:
    """The rollout's steps; a line of brackets alone joins its neighbour, as advantages add up."""
    steps = pd.read_csv(STEPS)
    steps = steps[(steps.problem_id == ROLLOUT[0]) & (steps.rollout_index == ROLLOUT[1])]
    for pattern, plain in PLAIN.items():
        steps["text"] = steps["text"].str.replace(pattern, plain, regex=True).str.strip()
    return steps[steps["text"].str.contains(r"\w")]


def draw_steps(axes: Axes) -> None:
    steps = read_steps()
    values = np.append(steps.value, steps.reward.iloc[0])
    texts = ["\n".join(textwrap.wrap(text, WIDTH)) for text in steps.text]
    heights = np.array([text.count("\n") + 1.6 for text in texts])
    tops = np.append(0, heights.cumsum())
    norm, colors = TwoSlopeNorm(0, -1.4, 1.4), mpl.colormaps["RdBu"]
    for text, gain, top, height in zip(texts, np.diff(values), tops, heights, strict=False):
        box = mpl.patches.Rectangle((0, top + 0.1), 1, height - 0.2, color=colors(norm(gain)))
        axes.add_patch(box)
        axes.text(0.015, top + height / 2, text, va="center", size=SMALL)
    place = LEFT + SPAN * values
    for value in (0, 1):
        axes.plot([LEFT + SPAN * value] * 2, [0, tops[-1]], color="#DDDDDD", lw=0.8, zorder=0)
    axes.plot(place, tops, "o-", color="black", lw=1.2, ms=4)
    for x, y, value in zip(place, tops, values, strict=True):
        axes.annotate(
            f"{value:.2f}", (x, y), (6, 0), textcoords="offset points", va="center", size=SMALL
        )
    axes.text(0, -3.2, "A wrong answer: red steps lose value", weight="bold")
    axes.text(0, -0.4, PROBLEM, style="italic", va="bottom", size=SMALL)
    axes.text(LEFT, -3.2, "State values", weight="bold")
    axes.text(LEFT, -1.7, "16 continuations", va="bottom", size=SMALL)
    axes.set(xlim=(0, LEFT + SPAN + 0.1), ylim=(tops[-1] + 0.3, -4))
    axes.axis("off")


def draw_scatter(axes: Axes) -> None:
    states = pd.read_parquet(STATES)
    truth = states.num_correct / states.num_samples
    axes.plot([0, 1], [0, 1], color="0.5", lw=1)
    for name, label, color in (
        ("sft_gsm8k_half_1e-05_1e-4_1", "best of three critics", figures.METHOD_COLORS["PPO"]),
        ("mc_9", "nine continuations", figures.METHOD_COLORS["VinePPO"]),
    ):
        chosen = (states.predictor == name) & (states.step_index > 0)
        axes.scatter(states.prediction[chosen], truth[chosen], s=14, alpha=0.7, lw=0, color=color)
        axes.plot([], [], "o", color=color, label=label)
    axes.set(xlabel="predicted value", ylabel="true value (256 continuations)", aspect="equal")
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc=(0.42, 0.03), handletextpad=0, borderpad=0)
    axes.set_title("Predicting values on GSM8K", size=8.2, loc="left", weight="bold")


def main() -> None:
    mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8.2})
    figure = Figure(figsize=(7.3, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    draw_steps(left)
    draw_scatter(right)
    figure.savefig(HERE / "front_page.png", dpi=180, metadata={"Software": None})


if __name__ == "__main__":
    main()
