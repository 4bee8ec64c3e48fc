"""How well predictors rank the alternatives at a state: accuracies with their intervals."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.action_ranking.table import RankedState, RankingTable
from analysis.old_tables import estimate_columns
from analysis.stats import ranking
from analysis.stats.bootstrap import (
    BOOTSTRAP_SEED,
    LEVEL,
    Terms,
    bootstrap_difference,
    bootstrap_sums,
    total,
)
from vineppo.errors import UserError

ALL_SEEDS = "all"
BOUNDARIES, QUERY = "boundaries", "query"
THIRDS = ("first third", "middle third", "last third")  # the boundaries by place in the response
GROUPS = (BOUNDARIES, QUERY, *THIRDS)
CRITIC = "critic"
NUM_RESAMPLES = 2000
STATISTICS = {"top1": ranking.top1, "pairwise": ranking.pairwise}


@dataclass(frozen=True)
class AccuracyRow:
    """One predictor at the states of a group: a row of action_ranking.csv.

    `seed` is that of the run, or "all" of the `num_seeds` runs of a name together. `top1` and
    `pairwise` are `stats.ranking`'s, the differences those to MC of the most continuations on the
    same resamples of problems; `top1_chance` is what a random choice reaches, and a random order
    has a pairwise accuracy of ½. Of the states that were drawn, queries among them,
    `num_dropped_states` had fewer than three distinct next steps. At `num_over_states` of the group
    every one of them ended the response: these are left out, for what ends a response has no value
    to estimate.
    """

    name: str
    seed: str
    num_seeds: int
    checkpoint: int
    group: str
    predictor: str
    num_states: int
    num_dropped_states: int
    num_over_states: int
    num_problems: int
    mean_alternatives: float
    num_pairs: int
    num_resolved_pairs: int
    top1_chance: float
    top1: float
    top1_low: float | None
    top1_high: float | None
    pairwise: float | None
    pairwise_low: float | None
    pairwise_high: float | None
    top1_difference: float
    top1_difference_low: float | None
    top1_difference_high: float | None
    pairwise_difference: float | None
    pairwise_difference_low: float | None
    pairwise_difference_high: float | None


def group_of(state: RankedState) -> str:
    """A state at 0.5 of its rollout's tokens is of the middle third, the prompt alone a query."""
    return QUERY if state.is_query else THIRDS[int(3 * state.position)]


def mc_name(num_continuations: int) -> str:
    return f"mc_{num_continuations}"


def in_group(state: RankedState, group: str) -> bool:
    own = group_of(state)
    return own == group or (group == BOUNDARIES and own != QUERY)


def predictor_terms(
    states: Sequence[RankedState], continuations: Sequence[int]
) -> dict[str, Terms]:
    """`ranking_terms` of every predictor, MC of the most continuations last of its kind.

    MC(K) of a state is what its disjoint sets of K draws give on average: 32 draws are ten sets of
    3, of which two are left over. The critic is there where it values every alternative.
    """
    terms = {mc_name(k): _mc_terms(states, k) for k in sorted(set(continuations))}
    critic = [state.critic_values for state in states]
    known = [values_A for values_A in critic if values_A is not None]
    if len(known) == len(critic):
        terms[CRITIC] = _terms(states, known)
    return terms


def accuracy_rows(
    tables: Sequence[RankingTable], continuations: Sequence[int]
) -> list[AccuracyRow]:
    """A row a group with states and predictor: of each table, then of all seeds of its name.

    Raises `UserError` for more continuations than a table has draws, and for tables of one name and
    checkpoint that differ in their numbers of samples or draws.
    """
    by_method: dict[tuple[str, int], list[RankingTable]] = {}
    for table in tables:
        _check_draws(table, max(continuations))
        by_method.setdefault((table.name, table.any_step.checkpoint), []).append(table)
    rows: list[AccuracyRow] = []
    for together in by_method.values():
        together.sort(key=lambda table: table.seed)
        for table in together:
            _check_alike(together[0], table)
            rows += _rows([table], continuations)
        if len(together) > 1:
            rows += _rows(together, continuations)
    return rows


def pooled(rows: Iterable[AccuracyRow]) -> list[AccuracyRow]:
    """The rows of all seeds together, and of the only seed where there is but one."""
    rows = list(rows)
    of_all = {(row.name, row.checkpoint) for row in rows if row.seed == ALL_SEEDS}
    return [
        row for row in rows if row.seed == ALL_SEEDS or (row.name, row.checkpoint) not in of_all
    ]


def _check_draws(table: RankingTable, num_continuations: int) -> None:
    num_draws = len(table.any_step.draws_D)
    if num_continuations > num_draws:
        raise UserError(
            f"{table.path} has {num_draws} draws a step, too few for --continuations "
            f"{num_continuations}"
        )


def _check_alike(first: RankingTable, other: RankingTable) -> None:
    there, here = (
        {"num_samples": step.num_samples, "num_draws": len(step.draws_D)}
        for step in (first.any_step, other.any_step)
    )
    for key, value in here.items():
        if value != there[key]:
            raise UserError(
                f"{first.path} and {other.path} are seeds of {other.name}, but {key} is "
                f"{there[key]} in the one and {value} in the other"
            )


def _rows(tables: Sequence[RankingTable], continuations: Sequence[int]) -> list[AccuracyRow]:
    ranked = [state for table in tables for state in table.ranked_states]
    terms = predictor_terms(ranked, continuations)
    baseline = terms[mc_name(max(continuations))]
    rows = []
    for group in GROUPS:
        chosen_N = np.array([in_group(state, group) for state in ranked])
        if not chosen_N.any():
            continue
        states = [state for state, is_in in zip(ranked, chosen_N, strict=True) if is_in]
        of_group = _group_columns(tables, group, states, _chosen(baseline, chosen_N))
        for predictor, of_N in terms.items():
            chosen = _chosen(of_N, chosen_N), _chosen(baseline, chosen_N)
            estimates = _estimate_columns(*chosen, [state.problem_id for state in states])
            rows.append(AccuracyRow(predictor=predictor, **of_group, **estimates))
    return rows


def _mc_terms(states: Sequence[RankedState], num_continuations: int) -> Terms:
    num_sets = len(states[0].steps_A[0].draws_D) // num_continuations
    of_sets = []
    for index in range(num_sets):
        of_set = slice(index * num_continuations, (index + 1) * num_continuations)
        of_sets.append(_terms(states, [s.draws[:, of_set].mean(axis=1) for s in states]))
    return {name: np.mean([terms[name] for terms in of_sets], axis=0) for name in of_sets[0]}


def _terms(states: Sequence[RankedState], predictions: Sequence[np.ndarray]) -> Terms:
    num_correct = [state.num_correct for state in states]
    num_samples = states[0].steps_A[0].num_samples
    return ranking.ranking_terms(predictions, num_correct, num_samples, LEVEL)


def _chosen(terms: Terms, chosen_N: np.ndarray) -> Terms:
    return {name: of_N[chosen_N] for name, of_N in terms.items()}


def _group_columns(
    tables: Sequence[RankingTable], group: str, states: Sequence[RankedState], terms: Terms
) -> dict[str, Any]:
    """What does not depend on the predictor."""
    sizes = [len(state.steps_A) for state in states]
    over = [s for table in tables for s in table.states if s.is_over and in_group(s, group)]
    dropped = [table.any_step.num_drawn_states - len(table.states) for table in tables]
    return {
        "name": tables[0].name,
        "seed": ALL_SEEDS if len(tables) > 1 else str(tables[0].seed),
        "num_seeds": len(tables),
        "checkpoint": tables[0].any_step.checkpoint,
        "group": group,
        "num_states": len(states),
        "num_dropped_states": sum(dropped),
        "num_over_states": len(over),
        "num_problems": len({state.problem_id for state in states}),
        "mean_alternatives": float(np.mean(sizes)),
        "num_pairs": sum(size * (size - 1) // 2 for size in sizes),
        "num_resolved_pairs": round(float(terms["pairs"].sum())),
        "top1_chance": float(ranking.chance(total(terms))),
    }


def _estimate_columns(terms: Terms, baseline: Terms, problem_N: Sequence[str]) -> dict[str, Any]:
    def bootstrap(function: Callable[..., Any], *of: Terms) -> dict[str, Any]:
        generator = np.random.default_rng(BOOTSTRAP_SEED)
        options = {"num_resamples": NUM_RESAMPLES, "level": LEVEL}
        return function(*of, problem_N, STATISTICS, generator, **options)

    columns: dict[str, Any] = {}
    for name, estimate in bootstrap(bootstrap_sums, terms).items():
        columns |= estimate_columns(name, estimate)
    for name, estimate in bootstrap(bootstrap_difference, terms, baseline).items():
        columns |= estimate_columns(f"{name}_difference", estimate)
    return columns
