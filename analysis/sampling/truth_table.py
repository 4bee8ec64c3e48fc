"""Makes a ground-truth table: samples the states of one checkpoint, a journal beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.rollout_files import read_rollouts
from analysis.sampling.continuations import Returns, StateRequest, sample_returns
from analysis.sampling.journal import Journal
from analysis.sampling.meter import Meter
from analysis.sampling.policies import Policies
from analysis.sampling.settings_file import write_settings
from analysis.sampling.states import (
    RolloutState,
    query_states,
    sample_boundaries,
)
from analysis.sampling.states import rollout_iteration as rollout_iteration_of
from analysis.truth import ANALYSIS, TruthState, write_truth
from vineppo.errors import UserError


@dataclass(frozen=True)
class Table:
    """One to make: the run, where its policy is, where the table goes, what it is made with."""

    run_path: Path
    policy: str
    target: Path
    settings: dict[str, Any]


def make_table(policies: Policies, table: Table) -> None:
    """Samples the states of one checkpoint; goes on where a killed one was."""
    settings = table.settings
    iteration = rollout_iteration_of(table.run_path, settings["checkpoint"])
    assert iteration is not None, "only checkpoints with rollouts are chosen"
    rows = read_rollouts(table.run_path, iteration)
    states = sample_boundaries(rows, settings["num_states"], settings["seed"], iteration)
    states = [*query_states(states), *states]
    if not states:
        raise UserError(f"{table.run_path}: no rollout of iteration {iteration} has two steps")
    policies.load(table.policy)
    journal = Journal(table.target.with_suffix(".partial.jsonl"), settings)
    title = f"{table.run_path}, iteration {settings['checkpoint']}"
    cost = _sample(policies, states, settings, journal, title)
    results = {(line["state"], line["kind"]): line for line in journal.lines}
    nothing: dict[str, Any] = {"returns": ()}
    rows_N = [
        _row(
            state,
            settings,
            iteration,
            results[place, "truth"],
            results.get((place, "draws"), nothing)["returns"],
        )
        for place, state in enumerate(states)
    ]
    write_truth(table.target, rows_N)
    write_settings(table.target, settings | cost)
    journal.close()


def _sample(
    policies: Policies,
    states: Sequence[RolloutState],
    settings: dict[str, Any],
    journal: Journal,
    title: str,
) -> dict[str, float]:
    """Adds to the journal what it lacks: a line a state for the truth and one for the draws."""
    there = {(line["state"], line["kind"]) for line in journal.lines}
    kinds = {"truth": settings["num_samples"], "draws": settings["num_draws"]}
    wanted = [
        (place, kind) for place in range(len(states)) for kind, number in kinds.items() if number
    ]
    missing = (
        StateRequest(
            prompt=policies.prompt(states[place].row["problem_id"]),
            prefix_ids=states[place].prefix_ids,
            num_samples=kinds[kind],
            stream=(settings["checkpoint"], ANALYSIS, kind),
            tag=(place, kind),
        )
        for place, kind in wanted
        if (place, kind) not in there
    )
    with Meter(title, len(wanted), len(there), policies.sampler.engine) as meter:

        def keep(request: StateRequest, returns: Returns) -> None:
            place, kind = request.tag
            journal.append(
                {
                    "state": place,
                    "kind": kind,
                    "num_correct": sum(returns.returns_K),
                    "num_truncated": returns.num_truncated,
                    "num_tokens": returns.num_tokens,
                    "returns": returns.returns_K if kind == "draws" else (),
                }
            )
            meter.advance()

        sample_returns(policies.sampler, missing, keep, meter.tick)
        return {"tokens_per_s": meter.tokens_per_s, "time_s": meter.time_s}


def _row(
    state: RolloutState,
    settings: dict[str, Any],
    rollout_iteration: int,
    truth: dict[str, Any],
    draws: Sequence[int],
) -> TruthState:
    row = state.row
    return TruthState(
        checkpoint=settings["checkpoint"],
        rollout_iteration=rollout_iteration,
        problem_id=row["problem_id"],
        rollout_index=row["rollout_index"],
        step_index=state.step_index,
        num_steps=len(row["step_starts"]),
        prefix_length=len(state.prefix_ids),
        response_length=len(row["response_ids"]),
        reward=row["reward"],
        num_samples=settings["num_samples"],
        num_correct=truth["num_correct"],
        num_truncated=truth["num_truncated"],
        num_tokens=truth["num_tokens"],
        draws_D=tuple(draws),
    )
