"""One figure of all values: what they know within problems, the signal of their differences over
RLOO's, and what they cost.

    python experiments/18_critics/figure.py

draws critics.png from value_accuracy.csv and gradient_variance.csv, here and in further/, and
seconds.csv.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
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
# Kinds of values: the predictors of a kind match its pattern, the first that fits.
KINDS = {
    "lagging count of skills": (r"oracle", figures.GREY),
    "continuations": (r"mc_\d+|pooled|shrunk|smoothed", figures.METHOD_COLORS["VinePPO"]),
    "martingales": (r"posterior|privileged", figures.METHOD_COLORS["martingale"]),
    "probes and questions": (r"probe|uncertainty|asked|judge|fused", figures.OTHER_COLORS[1]),
    "rewards of the group": (r"group.*", figures.METHOD_COLORS["K = 0"]),
    "critics and reward models": (r".*", figures.METHOD_COLORS["PPO"]),
}
LAST = 6  # iterations, 3,072 rewards
# No differences within a problem, or named twice.
LEFT_OUT = ("constant", "group", "group_mean", "drawn")


def read(name: str, keys: list[str]) -> pd.DataFrame:
    """Both runs' rows, of what both measured the first's."""
    both = [pd.read_csv(HERE / folder / name) for folder in (".", "further")]
    return pd.concat(both).drop_duplicates(keys)


def color_of(name: str) -> str:
    return next(color for form, color in KINDS.values() if re.fullmatch(form, name))


def draw(axis: Axes, frame: pd.DataFrame, label: str, **look: Any) -> None:
    """A dot and an interval a predictor, in the order of the rows."""
    rows = range(len(frame))
    axis.hlines(rows, frame["value_low"], frame["value_high"], **look)
    axis.scatter(frame["value"], rows, s=12, **look)
    axis.axvline(0, color="0.7", linewidth=0.6, zorder=0)
    axis.set(xlabel=label, yticks=rows, yticklabels=[], ylim=(-0.7, len(frame) - 0.3))


def main() -> None:
    scores = read("value_accuracy.csv", ["checkpoint", "predictor", "stratum", "metric"])
    scores = scores[(scores["stratum"] == "boundaries") & (scores["metric"] == "pearson_within")]
    scores = scores[(scores["checkpoint"] == LAST) & ~scores["predictor"].isin(LEFT_OUT)]
    scores = scores.sort_values("value").set_index("predictor")
    names = list(scores.index)
    signal = read("gradient_variance.csv", ["quantity", "estimator"])
    signal = signal[signal["quantity"] == "signal_ratio"].set_index("estimator")
    seconds = pd.read_csv(HERE / "seconds.csv", index_col="predictor")["over_grpo"]
    colors = list(map(color_of, names))
    with figures.panels(1, 3) as (figure, axes):
        figure.set_figheight(0.17 * len(names) + 0.8)
        draw(axes[0], scores, "correlation\nwithin problems", color=colors)
        axes[0].set_yticklabels(
            [LABELS.get(name) or figures.predictor_label(name) for name in names]
        )
        by_name = signal.reindex(map(estimators.of_values, names))
        draw(axes[1], by_name, "signal of the gradient\nover RLOO's", color=colors)
        axes[1].axvline(1, color="0.7", linewidth=0.6, linestyle=":", zorder=0)
        costs = seconds.reindex([COST_AS.get(name, name) for name in names])
        axes[2].scatter(costs, range(len(names)), s=12, color=colors)
        axes[2].set(
            xlabel="seconds of an iteration\nover GRPO's",
            yticks=range(len(names)),
            yticklabels=[],
            ylim=axes[0].get_ylim(),
        )
        low, high = 0.8 * seconds.min(), 1.25 * seconds.max()
        figures.logarithmic(axes[2], low, high, StrMethodFormatter("{x:g}"))
        axes[2].axvline(1, color="0.7", linewidth=0.6, zorder=0)
        for kind, (_, color) in KINDS.items():
            axes[0].plot([], [], "o", color=color, label=kind)
        figures.shared_legend(figure, axes[0])
        figures.save(figure, HERE / "critics")


if __name__ == "__main__":
    main()
