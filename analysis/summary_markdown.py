"""The summary of a comparison as Markdown, for the README of an experiment."""

from collections.abc import Sequence

from analysis.intervals import NUM_SEED_RESAMPLES, Estimate
from analysis.methods import Method
from analysis.summary import Summary


def summary_markdown(methods: Sequence[Method], summaries: Sequence[Summary]) -> str:
    """The table for a README, with what its numbers are."""
    first = _cell(summaries[0].method)
    heads = [
        "method",
        "seeds",
        "iterations",
        "pass@1 at the start",
        "pass@1 at the end",
        "mean over iterations",
        "training time",
        "sampled tokens",
        f"end − {first}",
        f"P(above {first})",
    ]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for one in summaries:
        lines.append(
            _line(
                [
                    _cell(one.method),
                    str(len(one.seeds)),
                    str(one.last_iteration),
                    _text(one.start),
                    _text(one.end),
                    _text(one.area),
                    "–" if one.elapsed_s is None else f"{one.elapsed_s:,.0f} s",
                    "–" if one.tokens_sampled is None else f"{one.tokens_sampled:,.0f}",
                    _text(one.difference, "+.3f"),
                    _text(one.improvement, ".2f"),
                ]
            )
        )
    return "\n".join([*lines, "", *_notes(methods, summaries)]) + "\n"


def _notes(methods: Sequence[Method], summaries: Sequence[Summary]) -> list[str]:
    """What a reader must know to trust the numbers, and what makes comparing them doubtful."""
    notes = [
        "pass@1: interquartile mean over seeds (arXiv:2108.13264; the plain mean of fewer than "
        "four), in brackets its 95 % percentile bootstrap interval over seeds "
        f"({NUM_SEED_RESAMPLES:,} resamples, the seeds of each method on their own; too narrow for "
        "a handful of seeds). Training time and sampled tokens: means over seeds."
    ]
    if single := [one.method for one in summaries if len(one.seeds) == 1]:
        notes.append(
            f"One seed only: {', '.join(single)}. The intervals at start and end are then over "
            "test problems and leave out how much seeds differ; elsewhere there are none."
        )
    for method in methods:
        if method.left_out:
            left_out = ", ".join(map(str, method.left_out))
            notes.append(f"{method.name}: not all seeds were evaluated at {left_out}; left out.")
    if len({one.last_iteration for one in summaries}) > 1:
        notes.append("The methods end at different iterations: the ends compare unequal budgets.")
    sizes = {
        (row.num_problems, row.samples_per_problem)
        for method in methods
        for rows in method.rows_by_seed.values()
        for row in rows
    }
    if len(sizes) > 1:
        notes.append("The evaluations differ in test problems or samples a problem.")
    else:
        num_problems, num_samples = sizes.pop()
        notes.append(f"{num_problems} test problems, {num_samples} sample(s) each.")
    return [f"- {_cell(note)}" for note in notes]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(estimate: Estimate | None, form: str = ".3f") -> str:
    if estimate is None:
        return "–"
    value = format(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({format(estimate.low, form)} to {format(estimate.high, form)})"
