"""How well predictors rank the alternatives at a state: accuracies with their intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.action_ranking.table import RankedState, RankingTable
from analysis.intervals import BOOTSTRAP_SEED, LEVEL
from analysis.stats import ranking
from analysis.stats.bootstrap import bootstrap_difference, bootstrap_sums
from analysis.stats.sums import Terms, total
from analysis.summary_file import estimate_columns
from vineppo.errors import UserError

ALL, QUERY = "all", "query"
THIRDS = ("first third", "middle third", "last third")  # of the response, the query apart
GROUPS = (ALL, QUERY, *THIRDS)
CRITIC = "critic"
NUM_RESAMPLES = 2000
STATISTICS = {"top1": ranking.top1, "pairwise": ranking.pairwise}


@dataclass(frozen=True)
class AccuracyRow:
    """One predictor at the states of a group: a row of action_ranking.csv.

    `top1` and `pairwise` are `stats.ranking`'s, the differences those to MC of the most
    continuations on the same resamples of problems; `top1_chance` is what a random choice reaches,
    and a random order has a pairwise accuracy of ½. Of the states that were drawn
    `num_dropped_states` had fewer than three distinct next steps, which is known of all states
    together, and at `num_over_states` every one of them ended the response: these are left out,
    for what ends a response has no value to estimate.
    """

    run: str
    checkpoint: int
    group: str
    predictor: str
    num_states: int
    num_dropped_states: int | None
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


def predictor_terms(table: RankingTable, continuations: Sequence[int]) -> dict[str, Terms]:
    """`ranking_terms` of every predictor, MC of the most continuations last of its kind.

    MC(K) of a state is what its disjoint sets of K draws give on average: 32 draws are ten sets of
    3, of which two are left over. The critic is there where it values every alternative. Raises
    `UserError` for more continuations than the table has draws.
    """
    num_draws = len(table.any_step.draws_D)
    if max(continuations) > num_draws:
        raise UserError(
            f"{table.path} has {num_draws} draws a step, too few for --continuations "
            f"{max(continuations)}"
        )
    terms = {mc_name(k): _mc_terms(table, k, num_draws // k) for k in sorted(set(continuations))}
    critic = [state.critic_values for state in table.ranked_states]
    known = [values_A for values_A in critic if values_A is not None]
    if len(known) == len(critic):
        terms[CRITIC] = _terms(table, known)
    return terms


def accuracy_rows(table: RankingTable, continuations: Sequence[int]) -> list[AccuracyRow]:
    """A row a group with states and predictor."""
    terms = predictor_terms(table, continuations)
    baseline = terms[mc_name(max(continuations))]
    ranked = table.ranked_states
    group_N = np.array([group_of(state) for state in ranked])
    rows = []
    for group in GROUPS:
        chosen_N = (group_N == group) | (group == ALL)
        if not chosen_N.any():
            continue
        states = [state for state, is_in in zip(ranked, chosen_N, strict=True) if is_in]
        of_group = _group_columns(table, group, states, _chosen(baseline, chosen_N))
        for predictor, of_N in terms.items():
            chosen = _chosen(of_N, chosen_N), _chosen(baseline, chosen_N)
            estimates = _estimate_columns(*chosen, [state.problem_id for state in states])
            rows.append(AccuracyRow(predictor=predictor, **of_group, **estimates))
    return rows


def _mc_terms(table: RankingTable, num_continuations: int, num_sets: int) -> Terms:
    of_sets = []
    for index in range(num_sets):
        of_set = slice(index * num_continuations, (index + 1) * num_continuations)
        of_sets.append(
            _terms(table, [s.draws[:, of_set].mean(axis=1) for s in table.ranked_states])
        )
    return {name: np.mean([terms[name] for terms in of_sets], axis=0) for name in of_sets[0]}


def _terms(table: RankingTable, predictions: Sequence[np.ndarray]) -> Terms:
    num_correct = [state.num_correct for state in table.ranked_states]
    return ranking.ranking_terms(predictions, num_correct, table.any_step.num_samples, LEVEL)


def _chosen(terms: Terms, chosen_N: np.ndarray) -> Terms:
    return {name: of_N[chosen_N] for name, of_N in terms.items()}


def _group_columns(
    table: RankingTable, group: str, states: Sequence[RankedState], terms: Terms
) -> dict[str, Any]:
    """What does not depend on the predictor."""
    sizes = [len(state.steps_A) for state in states]
    over = [state for state in table.states if state.is_over and group in (ALL, group_of(state))]
    return {
        "run": table.run,
        "checkpoint": table.any_step.checkpoint,
        "group": group,
        "num_states": len(states),
        "num_dropped_states": (
            table.any_step.num_drawn_states - len(table.states) if group == ALL else None
        ),
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
