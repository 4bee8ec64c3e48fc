"""The figure of `action-ranking`: a row a method, accuracies along training and the response."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from analysis import figures
from analysis.action_ranking.accuracy import (
    BOUNDARIES,
    CRITIC,
    GROUPS,
    AccuracyRow,
    pooled,
)

DODGE = 0.13  # between the predictors of one place, in places
PANELS = 3
TITLE_PAD = 10  # points, for the markers of a perfect accuracy


def draw(rows: Sequence[AccuracyRow], out: Path) -> list[Path]:
    """Writes action_ranking.png and .svg."""
    rows = pooled(rows)
    names = list(dict.fromkeys(row.name for row in rows))
    predictors = list(dict.fromkeys(row.predictor for row in rows))
    predictors.sort(key=lambda name: name == CRITIC)  # methods without a critic may come first
    with figures.panels(len(names), PANELS) as (figure, axes):
        for index, name in enumerate(names):
            of_name = [row for row in rows if row.name == name]
            draw_method(axes[PANELS * index : PANELS * (index + 1)], of_name, predictors)
        # A method without a critic lacks its line.
        fullest = max(axes, key=lambda axis: len(axis.get_legend_handles_labels()[1]))
        figures.shared_legend(figure, fullest)
        return figures.save(figure, out / "action_ranking")


def draw_method(
    axes: Sequence[Axes], rows: Sequence[AccuracyRow], predictors: Sequence[str]
) -> None:
    """At the step boundaries by checkpoint, top-1 and pairwise; pairwise by place at the last."""
    checkpoints = sorted({row.checkpoint for row in rows})
    boundaries = [row for row in rows if row.group == BOUNDARIES]
    last = [row for row in rows if row.checkpoint == checkpoints[-1] and row.group != BOUNDARIES]
    groups = [group for group in GROUPS if any(row.group == group for row in last)]
    for axis, name in zip(axes[:2], ("top1", "pairwise"), strict=True):
        places = [checkpoints.index(row.checkpoint) for row in boundaries]
        draw_points(axis, boundaries, places, name, predictors)
        axis.set_xticks(range(len(checkpoints)), map(str, checkpoints))
        axis.set_xlabel("iteration of the policy")
        axis.set_xlim(-0.5, len(checkpoints) - 0.5)
    draw_points(axes[2], last, [groups.index(row.group) for row in last], "pairwise", predictors)
    num_states = {row.group: row.num_states for row in last}
    ticks = ["\n".join([*group.split(), f"({num_states[group]})"]) for group in groups]
    axes[2].set_xticks(range(len(groups)), ticks)
    axes[2].set_xlim(-0.5, len(groups) - 0.5)
    axes[2].set_xlabel("place in the response (states)")
    axes[0].set_ylabel("top-1 accuracy")
    axes[0].set_title(title(rows), pad=TITLE_PAD)
    axes[2].set_title(f"iteration {checkpoints[-1]}", pad=TITLE_PAD)
    for axis in axes[1:]:
        axis.set_ylabel("pairwise accuracy")


def title(rows: Sequence[AccuracyRow]) -> str:
    """`long_ppo, 3 seeds`."""
    num_seeds = max(row.num_seeds for row in rows)
    seeds = f"{num_seeds} seeds" if num_seeds > 1 else f"seed {rows[0].seed}"
    return f"{rows[0].name}, {seeds}"


def draw_points(
    axis: Axes,
    rows: Sequence[AccuracyRow],
    places: Sequence[int],
    name: str,
    predictors: Sequence[str],
) -> None:
    """Points with their intervals, the predictors of one place beside each other; and chance."""
    for index, predictor in enumerate(predictors):
        shift = DODGE * (index - (len(predictors) - 1) / 2)
        label, color = predictor_label(predictor), figures.COLORS[index % len(figures.COLORS)]
        for row, place in zip(rows, places, strict=True):
            value = getattr(row, name)
            if row.predictor != predictor or value is None:
                continue
            low, high = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
            x = place + shift
            if low is not None and high is not None:
                axis.plot([x, x], [low, high], color=color, linewidth=1, zorder=2, clip_on=False)
            marker = figures.marker(index)
            axis.plot([x], [value], marker=marker, color=color, ls="", label=label, clip_on=False)
            label = ""  # once in the legend
    label = "chance"
    for place in dict.fromkeys(places):
        row = rows[places.index(place)]
        level = row.top1_chance if name == "top1" else 0.5
        axis.plot([place - 0.4, place + 0.4], [level] * 2, color="0.6", linewidth=1, label=label)
        label = ""
    axis.set_ylim(0, 1)


def predictor_label(predictor: str) -> str:
    """ "mc_9" as "MC, K = 9"."""
    return "critic" if predictor == CRITIC else f"MC, K = {predictor.removeprefix('mc_')}"
