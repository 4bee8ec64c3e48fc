"""The summary of a comparison as Markdown, for the README of an experiment."""

import math
from collections.abc import Sequence

from analysis.intervals import NUM_SEED_RESAMPLES, Estimate
from analysis.learning_curves.equal_cost import AtEqualCost
from analysis.learning_curves.phases import NAMES, MethodPhases
from analysis.learning_curves.summary import Summary
from analysis.learning_curves.time_to_target import TimeToTarget
from analysis.methods import Method

UNITS = {
    "iteration": "iterations",
    "gradient_steps": "gradient steps",
    "elapsed_s": "s",
    "tokens_sampled": "tokens",
}


def summary_markdown(
    methods: Sequence[Method],
    summaries: Sequence[Summary],
    compared: Sequence[AtEqualCost],
    times: Sequence[TimeToTarget],
    phases: Sequence[MethodPhases],
) -> str:
    """The tables for a README, with what their numbers are."""
    tables = [
        _summary_table(summaries),
        _equal_cost_table(compared),
        _target_table(times),
        _phases_table(phases),
    ]
    text = "\n\n".join("\n".join(lines) for lines in tables if lines)
    return "\n".join([text, "", *_notes(methods, summaries)]) + "\n"


def _summary_table(summaries: Sequence[Summary]) -> list[str]:
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
    rows = [
        [
            one.method,
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
        for one in summaries
    ]
    return _table(heads, rows)


def _equal_cost_table(compared: Sequence[AtEqualCost]) -> list[str]:
    """pass@1 where all runs have cost the same, a column a cost."""
    budgets = {one.cost: one.budget for one in compared}
    heads = ["method", *(f"pass@1 at {_amount(cost, most)}" for cost, most in budgets.items())]
    cells = {(one.method, one.cost): _text(one.pass_at_1) for one in compared}
    names = dict.fromkeys(one.method for one in compared)
    return _table(heads, [[name, *(cells[name, cost] for cost in budgets)] for name in names])


def _target_table(times: Sequence[TimeToTarget]) -> list[str]:
    """What pass@1 of the target cost: median and restricted mean, a column a cost."""
    if not times:
        return []
    horizons = {one.cost: one.horizon for one in times}
    heads = [f"cost of {times[0].target:g}", "seeds there"]
    heads += [f"median, mean up to {_amount(*horizon)}" for horizon in horizons.items()]
    by_method: dict[str, list[TimeToTarget]] = {}
    for one in times:
        by_method.setdefault(one.method, []).append(one)
    rows = [
        [
            name,
            f"{of[0].num_reached} of {of[0].num_seeds}",
            *(f"{'–' if one.median is None else _round(one.median)}, {_mean(one)}" for one in of),
        ]
        for name, of in by_method.items()
    ]
    return _table(heads, rows)


def _phases_table(phases: Sequence[MethodPhases]) -> list[str]:
    """Seconds of an iteration and the share of each phase that any method has."""
    taken = [name for name in NAMES if any(name in one.seconds for one in phases)]
    rows = [
        [
            one.method,
            f"{one.total_s:,.1f} s",
            *(f"{100 * one.shares[name]:.0f} %" if name in one.shares else "–" for name in taken),
        ]
        for one in phases
    ]
    return _table(["method", "an iteration", *taken], rows)


def _notes(methods: Sequence[Method], summaries: Sequence[Summary]) -> list[str]:
    """What a reader must know to trust the numbers, and what makes comparing them doubtful."""
    notes = [
        "pass@1: interquartile mean over seeds (arXiv:2108.13264; the plain mean of fewer than "
        "four), in brackets its 95 % percentile bootstrap interval over seeds "
        f"({NUM_SEED_RESAMPLES:,} resamples, the seeds of each method on their own; too narrow for "
        "a handful of seeds). Training time and sampled tokens: means over seeds.",
        "At equal cost: the most that every run came to, a run's evaluations joined by straight "
        "lines. Cost of a target: the first evaluation that shows it, which noise makes early; "
        "Kaplan–Meier's median (– where more than half never got there), and the mean, no cost "
        "counted beyond the horizon, the least at which a run without it was last seen.",
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


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Nothing of no rows."""
    if not rows:
        return []
    lines = [heads, ["---"] * len(heads), *([_cell(text) for text in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _amount(cost: str, amount: float) -> str:
    return f"{_round(amount)} {UNITS[cost]}"


def _mean(one: TimeToTarget) -> str:
    if math.isclose(one.restricted_mean.value, one.horizon):
        return f"≥ {_round(one.horizon)}"  # no seed had reached before
    return _text(one.restricted_mean, ",.1f" if one.horizon < 100 else ",.0f")


def _round(amount: float) -> str:
    return f"{amount:,.1f}" if amount < 100 and amount % 1 else f"{amount:,.0f}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(estimate: Estimate | None, form: str = ".3f") -> str:
    if estimate is None:
        return "–"
    value = format(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({format(estimate.low, form)} to {format(estimate.high, form)})"
