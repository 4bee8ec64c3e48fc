"""The figure of `advantages`: a row a run; how advantages are spread, and where in the response."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from analysis import figures
from analysis.advantages.credit import CRITIC, MC, TRAINED, TRUTH
from analysis.advantages.spread import NUM_BINS, PlaceRow, QuantileRow, SpreadRow
from analysis.advantages.steps import ALL, CORRECT, INCORRECT

PANELS = 4
LINE_OF_GROUP = {CORRECT: "-", INCORRECT: "--"}
NAME_OF_SOURCE = {
    TRAINED: "the advantages",
    MC: "MC values",
    CRITIC: "the critic's values",
    TRUTH: "the true values",
}


def draw(
    spread: Sequence[SpreadRow],
    quantiles: Sequence[QuantileRow],
    places: Sequence[PlaceRow],
    out: Path,
) -> list[Path]:
    """Writes advantages.png and .svg."""
    shown: dict[str, list[int]] = {}  # by run
    for row in spread:
        iterations = shown.setdefault(row.run_dir, [])
        if row.iteration not in iterations:
            iterations.append(row.iteration)
    with figures.panels(len(shown), PANELS) as (figure, axes):
        for index, (run_dir, iterations) in enumerate(shown.items()):
            panels = axes[PANELS * index : PANELS * (index + 1)]
            of_run = [[r for r in rows if r.run_dir == run_dir] for rows in (quantiles, places)]
            for place, iteration in enumerate(iterations):
                at = [[r for r in rows if r.iteration == iteration] for rows in of_run]
                draw_iteration(panels, at[0], at[1], figures.line_style(place))
            finish_run(panels, [row for row in spread if row.run_dir == run_dir])
        has_truth = any(row.source == TRUTH for row in spread)
        add_legend(axes[0], iteration_labels(list(shown.values())), has_truth)
        figures.shared_legend(figure, axes[0])
        return figures.save(figure, out / "advantages")


def add_legend(axis: Axes, labels: Sequence[str], has_truth: bool) -> None:
    """Lines that are not drawn: what a colour means, and what a line of each kind."""
    for place, label in enumerate(labels):
        axis.plot([], [], marker="o", label=label, **figures.line_style(place))
    kinds = LINE_OF_GROUP | {"if all steps were alike": ":"}
    if has_truth:
        kinds["by the true values"] = "-."
    for label, line in kinds.items():
        axis.plot([], [], color="0.4", linestyle=line, label=label)


def iteration_labels(of_runs: Sequence[Sequence[int]]) -> list[str]:
    """By number where all runs show the same ones, else by their order."""
    longest = max(of_runs, key=len)
    if all(list(iterations) == list(longest) for iterations in of_runs):
        return [f"iteration {iteration}" for iteration in longest]
    return [f"iteration shown {place}" for place in range(1, len(longest) + 1)]


def draw_iteration(
    axes: Sequence[Axes], quantiles: Sequence[Any], places: Sequence[Any], style: dict[str, Any]
) -> None:
    """One colour: cumulative shares, means by outcome, shares near zero, critical steps."""
    trained = [r for r in quantiles if (r.source, r.group) == (TRAINED, ALL)]
    probabilities = [100 * row.probability for row in trained]
    axes[0].step([row.advantage for row in trained], probabilities, where="post", **style)
    relative = [row for row in places if row.axis == "relative"]
    for group, line in LINE_OF_GROUP.items():
        rows = [r for r in relative if (r.source, r.group) == (TRAINED, group)]
        draw_places(axes[1], rows, "mean", 1, style | {"linestyle": line})
    draw_places(axes[2], _of_all(relative, TRAINED), "near_zero", 100, style)
    source = critical_source({row.source for row in relative})
    draw_places(axes[3], _of_all(relative, source), "critical", 100, style)
    if source != TRUTH:
        dashed = style | {"linestyle": "-."}
        draw_places(axes[3], _of_all(relative, TRUTH), "critical", 100, dashed)
    even = {"color": style["color"], "linestyle": ":", "linewidth": 0.8, "marker": ""}
    draw_places(axes[3], _of_all(relative, source), "even", 100, even)


def finish_run(axes: Sequence[Axes], spread: Sequence[SpreadRow]) -> None:
    """What does not depend on the iteration, and the numbers of the last one in the titles."""
    last = [r for r in spread if r.iteration == spread[-1].iteration and r.group == ALL]
    by_source = {row.source: row for row in last}
    source = critical_source(by_source)
    row = by_source[source]
    axes[0].set_title(f"{row.name}, seed {row.seed}")
    axes[0].set_xlabel("advantage of a step")
    axes[0].set_ylabel("steps with at most it (%)")
    axes[0].set_ylim(0, 100)
    for axis in axes[1:]:
        axis.set_xlabel("part of the response (%)")
        axis.set_xlim(0, 100)
    axes[1].set_ylabel("mean advantage")
    axes[1].axhline(0, color="0.7", linewidth=0.6, zorder=0)
    axes[2].set_ylabel(f"|A| < {row.near_zero_below:g} (% of steps)")
    axes[2].set_ylim(0, 100)
    axes[3].set_ylabel("critical steps (%)")
    axes[3].set_ylim(bottom=0)
    if row.top_share is not None and row.even_share is not None:
        axes[3].set_title(
            f"by {NAME_OF_SOURCE[source]}: the largest carries\n"
            f"{100 * row.top_share:.0f} % of a rollout's sum (alike: {100 * row.even_share:.0f} %)"
        )


def draw_places(
    axis: Axes, rows: Sequence[PlaceRow], field: str, factor: float, style: dict[str, Any]
) -> None:
    """A field against the middles of the bins, a gap where it is unknown; no rows, no line."""
    if not rows:
        return  # an empty line that is not clipped takes the layout down
    middles = [100 * (row.bin + 0.5) / NUM_BINS for row in rows]
    known = [getattr(row, field) for row in rows]
    ys = [float("nan") if y is None else factor * y for y in known]
    axis.plot(middles, ys, clip_on=False, **{"marker": "o"} | style)


def critical_source(sources: Any) -> str:
    """Of the values a run had; without any of the truth, else of its advantages."""
    return next(source for source in (MC, CRITIC, TRUTH, TRAINED) if source in sources)


def _of_all(rows: Sequence[PlaceRow], source: str) -> list[PlaceRow]:
    return [row for row in rows if (row.source, row.group) == (source, ALL)]
