"""What `learning-curves` came to: its part of summary.json, and tables for an experiment's README.

The frames are `SUMMARY` and `method_phases` of `learning_curves`, `EQUAL_COST` and `TIME_TO_TARGET`
of `costs`.
"""

import math
from typing import Any

import pandas as pd

from analysis.stats.seeds import NUM_SEED_RESAMPLES
from analysis.summary import UNKNOWN, escaped, interval, markdown_table, nested, number
from analysis.tables import estimate

UNITS = {
    "iteration": "iterations",
    "gradient_steps": "gradient steps",
    "elapsed_s": "s",
    "tokens_sampled": "tokens",
}
NOTES = (
    "pass@1: interquartile mean over seeds (arXiv:2108.13264; the plain mean of fewer than four), "
    "in brackets its 95 % percentile bootstrap interval over seeds "
    f"({NUM_SEED_RESAMPLES:,} resamples, the seeds of each method on their own; too narrow for a "
    "handful of seeds). Training time and sampled tokens: means over seeds.",
    "At equal cost: the most that every run came to, a run's evaluations joined by straight lines. "
    "Cost of a target: the first evaluation that shows it, which noise makes early; Kaplan–Meier's "
    "median (– where more than half never got there), and the mean, no cost counted beyond the "
    "horizon, the least at which a run without it was last seen.",
)


def summary_content(
    summary: pd.DataFrame, equal: pd.DataFrame, times: pd.DataFrame, seconds: pd.DataFrame
) -> dict[str, Any]:
    """By method. Comparisons are with `baseline`, the first one.

    `interval_over` is what the intervals of the start and the end resample.
    """
    methods = nested(summary.assign(num_seeds=summary["seeds"].map(_count)), "method")
    parts = nested(equal, "method", "cost"), nested(times, "method", "cost", leave=["target"])
    for name, content in methods.items():
        content["at_equal_cost"], content["to_target"] = (part.get(name, {}) for part in parts)
        taken = seconds.loc[name] if name in seconds.index else pd.Series(dtype=float)
        content["seconds_of_iteration"] = taken[taken > 0].to_dict()
    target = {} if times.empty else {"target": times["target"].iloc[0]}
    return {"baseline": summary["method"].iloc[0], **target, "methods": methods}


def summary_markdown(
    rows: pd.DataFrame,
    summary: pd.DataFrame,
    equal: pd.DataFrame,
    times: pd.DataFrame,
    seconds: pd.DataFrame,
) -> str:
    """The tables for a README, with what their numbers are; `rows` are the evaluations."""
    tables = _ends(summary), _equal_cost(equal), _target(times), _phases(seconds)
    text = "\n\n".join("\n".join(lines) for lines in tables if lines)
    return "\n".join([text, "", *(f"- {escaped(note)}" for note in _notes(rows, summary))]) + "\n"


def _ends(summary: pd.DataFrame) -> list[str]:
    first = escaped(summary["method"].iloc[0])
    heads = ["method", "seeds", "iterations", "pass@1 at the start", "pass@1 at the end"]
    heads += ["mean over iterations", "training time", "sampled tokens"]
    return markdown_table(
        [*heads, f"end − {first}", f"P(above {first})"],
        [
            [
                row["method"],
                str(_count(row["seeds"])),
                str(row["last_iteration"]),
                *(interval(estimate(row, name)) for name in ("start_pass@1", "end_pass@1", "area")),
                number(row["elapsed_s"], ",.0f", " s"),
                number(row["tokens_sampled"], ",.0f"),
                interval(estimate(row, "difference"), "+.3f"),
                interval(estimate(row, "improvement"), ".2f"),
            ]
            for row in summary.to_dict("records")
        ],
    )


def _equal_cost(equal: pd.DataFrame) -> list[str]:
    """pass@1 where all runs have cost the same, a column a cost."""
    budgets = equal.drop_duplicates("cost")
    amounts = (_amount(row.cost, row.budget) for row in budgets.itertuples())
    return markdown_table(
        ["method", *(f"pass@1 at {amount}" for amount in amounts)],
        [
            [str(name), *(interval(estimate(row, "pass@1")) for _, row in group.iterrows())]
            for name, group in equal.groupby("method", sort=False)
        ],
    )


def _target(times: pd.DataFrame) -> list[str]:
    """What pass@1 of the target cost: median and restricted mean, a column a cost."""
    if times.empty:
        return []
    horizons = times.drop_duplicates("cost").itertuples()
    heads = [f"cost of {times['target'].iloc[0]:g}", "seeds there"]
    heads += [f"median, mean up to {_amount(row.cost, row.horizon)}" for row in horizons]
    rows = []
    for name, group in times.groupby("method", sort=False):
        there = f"{group['num_reached'].iloc[0]} of {group['num_seeds'].iloc[0]}"
        costs = (f"{_round(row['median'])}, {_mean(row)}" for _, row in group.iterrows())
        rows.append([str(name), there, *costs])
    return markdown_table(heads, rows)


def _phases(seconds: pd.DataFrame) -> list[str]:
    """Seconds of an iteration and the share of each phase that any method has."""
    rows = []
    for name, row in seconds.iterrows():
        shares = 100 * row / (row.sum() or 1.0)
        cells = (f"{share:.0f} %" if share > 0 else UNKNOWN for share in shares)
        rows.append([str(name), f"{row.sum():,.1f} s", *cells])
    return markdown_table(["method", "an iteration", *seconds], rows)


def _notes(rows: pd.DataFrame, summary: pd.DataFrame) -> list[str]:
    """What a reader must know to trust the numbers, and what makes comparing them doubtful."""
    notes = list(NOTES)
    if single := list(summary["method"][summary["interval_over"] == "problems"]):
        notes.append(
            f"One seed only: {', '.join(single)}. The intervals at start and end are then over "
            "test problems and leave out how much seeds differ; elsewhere there are none."
        )
    for name, group in rows.groupby("method", sort=False):
        num_seeds = group.groupby("iteration")["seed"].nunique()
        left_out = ", ".join(map(str, num_seeds.index[num_seeds < group["seed"].nunique()]))
        if left_out:
            notes.append(f"{name}: not all seeds were evaluated at {left_out}; left out.")
    if summary["last_iteration"].nunique() > 1:
        notes.append("The methods end at different iterations: the ends compare unequal budgets.")
    sizes = rows[["num_problems", "samples_per_problem"]].drop_duplicates()
    if len(sizes) > 1:
        notes.append("The evaluations differ in test problems or samples a problem.")
    else:
        num_problems, num_samples = sizes.iloc[0]
        notes.append(f"{num_problems} test problems, {num_samples} sample(s) each.")
    return notes


def _count(seeds: str) -> int:
    return len(seeds.split())


def _amount(cost: str, amount: float) -> str:
    return f"{_round(amount)} {UNITS[cost]}"


def _mean(row: pd.Series) -> str:
    mean, horizon = estimate(row, "restricted_mean"), row["horizon"]
    if mean is not None and math.isclose(mean.value, horizon):
        return f"≥ {_round(horizon)}"  # no seed had reached before
    return interval(mean, ",.1f" if horizon < 100 else ",.0f")


def _round(amount: float) -> str:
    return number(amount, ",.1f" if amount < 100 and amount % 1 else ",.0f")
