"""One figure of all values: what they know within problems, what their differences leave of the
policy's gradient, what they cost, and what the policy learns by some of them.

    python experiments/18_critics/figure.py

draws critics.png from value_accuracy.csv and gradient_variance.csv, here and in further/,
seconds.csv, and compare/compare.csv.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter

from analysis import estimators, figures

HERE = Path(__file__).parent
LABELS = {
    "boxed": "critic, answer behind the prompt",
    "spoiler": "critic, solution in view",
    "accuracy": "critic, others' pass rate in view",
    "outcome": "reward model of outcomes",
    "process": "reward model of states",
    "from_outcome": "critic, started from a reward model",
    "uncertainty": "probe of the policy's uncertainty",
    **{name: f"continuations, {name}" for name in ("pooled", "shrunk", "smoothed")},
}
# Values that cost what others do, by the names of seconds.csv.
COST_AS = {
    **dict.fromkeys(("critic", "zero_head", "from_outcome"), "bounded"),
    **dict.fromkeys(("boxed", "spoiler", "accuracy"), "answer"),
    **dict.fromkeys(("pooled", "shrunk", "smoothed", "uncertainty"), "mc_1"),
    "process": "outcome",
    "fused": "judge",
    "group_mean_others": "none",
}
# Runs of compare.csv that learned by them.
LEARNED = {
    "mc_3": "VinePPO, K = 3",
    "mc_9": "VinePPO, K = 9",
    "privileged": "martingale, answer in view",
    "posterior": "martingale",
    "zero_head": "PPO",
}
LOOKS = [
    {"label": "after 1,024 rewards", "color": "0.65"},
    {"label": "after 3,072 rewards", "color": figures.COLORS[0]},
]
# No differences within a problem, or named twice.
LEFT_OUT = ("constant", "group", "group_mean", "drawn")


def read(name: str, keys: list[str]) -> pd.DataFrame:
    """Both runs' rows, of what both measured the first's."""
    both = [pd.read_csv(HERE / folder / name) for folder in (".", "further")]
    return pd.concat(both).drop_duplicates(keys)


def main() -> None:
    scores = read("value_accuracy.csv", ["checkpoint", "predictor", "stratum", "metric"])
    scores = scores[(scores["stratum"] == "boundaries") & (scores["metric"] == "pearson_within")]
    scores = scores[~scores["predictor"].isin(LEFT_OUT)].set_index(["checkpoint", "predictor"])
    noise = read("gradient_variance.csv", ["quantity", "estimator"])
    noise = noise.set_index(["quantity", "estimator"])
    early, late = (scores.loc[checkpoint] for checkpoint in (2, 6))
    names = list(late.sort_values("value").index)
    noisy = list(map(estimators.of_values, names))
    panels = [
        ("correlation within problems", (early.loc[names], late.loc[names])),
        *(
            (label, (noise.loc[quantity].reindex(noisy),))
            for quantity, label in {
                "signal_ratio": "gradient's signal over RLOO's",
                "trace_ratio": "gradient's noise over RLOO's",
            }.items()
        ),
    ]
    seconds = pd.read_csv(HERE / "seconds.csv", index_col="predictor")["over_grpo"]
    learned = pd.read_csv(HERE / "compare" / "compare.csv")
    learned = learned[learned["interval"] == "welch"].set_index("method")
    learned = learned.reindex([LEARNED.get(name, "") for name in names])
    with figures.panels(1, 5) as (figure, axes):
        figure.set_size_inches(12.4, 0.17 * len(names) + 0.9)
        for axis, (label, frames) in zip(axes[:3], panels, strict=True):
            for place, (frame, look) in enumerate(zip(frames, LOOKS[-len(frames) :], strict=True)):
                rows = np.arange(len(names)) + 0.15 * (len(frames) - 1 - 2 * place)
                axis.hlines(rows, frame["value_low"], frame["value_high"], color=look["color"])
                axis.plot(frame["value"], rows, "o", **look)
            axis.axvline(0, color="0.7", linewidth=0.6, zorder=0)
            axis.set(xlabel=label, yticks=range(len(names)), yticklabels=[])
        costs = seconds.reindex([COST_AS.get(name, name) for name in names])
        axes[3].plot(costs, range(len(names)), "o", color=figures.COLORS[0])
        axes[3].set(
            xlabel="seconds of an iteration over GRPO's", yticks=range(len(names)), yticklabels=[]
        )
        low, high = 0.8 * seconds.min(), 1.25 * seconds.max()
        figures.logarithmic(axes[3], low, high, StrMethodFormatter("{x:g}"))
        axes[3].axvline(1, color="0.7", linewidth=0.6, zorder=0)
        axes[4].hlines(range(len(names)), learned["effect_low"], learned["effect_high"])
        axes[4].plot(learned["effect"], range(len(names)), "o", color=figures.COLORS[0])
        axes[4].axvline(0, color="0.7", linewidth=0.6, zorder=0)
        axes[4].set(xlabel="pass@1 less RLOO's", yticks=range(len(names)), yticklabels=[])
        axes[4].set_ylim(axes[0].get_ylim())
        axes[0].set_yticklabels(
            [LABELS.get(name) or figures.predictor_label(name) for name in names]
        )
        axes[1].axvline(1, color="0.7", linewidth=0.6, linestyle=":", zorder=0)
        figures.shared_legend(figure, axes[0])
        figures.save(figure, HERE / "critics")


if __name__ == "__main__":
    main()
