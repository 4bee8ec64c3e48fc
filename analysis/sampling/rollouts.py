"""The rollouts of an iteration, read back or sampled anew, and which of their states are looked at.

Whose values: the rollouts of iteration i are of checkpoint i − 1, the policy that sampled them.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from analysis.rollout_files import predictions_by_state, read_rollouts, values_by_state
from analysis.sampling.journal import Meter
from vineppo.credit import Credit
from vineppo.errors import UserError
from vineppo.rollouts import Prompt, Sampler, State, submit_rollouts
from vineppo.run_dir import TURN_COLUMNS, RunDir, write_parquet
from vineppo.types import (
    CRITIC,
    MONTE_CARLO,
    Problem,
    Rollout,
    StateValue,
    StepSpan,
    Turn,
    derive_seed,
)

COLUMNS = ("prompt_ids", "logprobs", "finish_reason", "text")
VALUE_COLUMNS = ("returns_K", "num_tokens", "critic_value")


def read_saved(run_path: Path, iteration: int, problem: Callable[[str], Problem]) -> list[Rollout]:
    """The rollouts of an iteration as training had them, with the values of steps that it saved.

    They have the order of the table, where those of a problem stand together. Tables hold ids:
    `problem` gives the rest. Raises `UserError` for a table that is damaged or incomplete.
    """
    rollouts = [
        _rollout(row, problem(row["problem_id"]))
        for row in read_rollouts(run_path, iteration, COLUMNS)
    ]
    values = values_by_state(run_path, iteration, VALUE_COLUMNS)
    saved = [(MONTE_CARLO, values, "returns_K"), (CRITIC, values, "critic_value")]
    for name, further in predictions_by_state(run_path, iteration).items():
        saved.append((name, further, "value"))
    for name, rows, column in saved:
        _set_values(rollouts, name, rows, column, f"{run_path}, iteration {iteration}")
    return rollouts


def write_sampled(path: Path, halves: Sequence[Sequence[Rollout]]) -> None:
    """A row a rollout: token ids, and the returns of K continuations before every step."""
    schema = pa.schema(
        {"half": pa.int32(), "problem_id": pa.string(), "rollout_index": pa.int32()}
        | dict.fromkeys(("prompt_ids", "response_ids", "step_starts"), pa.list_(pa.int32()))
        | {"reward": pa.float32(), "returns_SK": pa.list_(pa.list_(pa.float32()))}
    )
    rows = [
        {
            "half": number,
            "problem_id": rollout.problem.id,
            "rollout_index": rollout.rollout_index,
            "prompt_ids": rollout.prompt_ids,
            "response_ids": rollout.response_ids,
            "step_starts": [span.start for span in rollout.spans_S],
            "reward": rollout.reward,
            "returns_SK": [state.returns_K for state in rollout.returns_S[MONTE_CARLO]],
        }
        for number, half in enumerate(halves)
        for rollout in half
    ]
    write_parquet(path, rows, schema)


def groups_of(rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The rollouts of each problem."""
    return [list(group) for _, group in groupby(rollouts, key=lambda rollout: rollout.problem.id)]


def sample_responses(
    sampler: Sampler,
    prompts_P: Sequence[Prompt],
    num_samples: int,
    stream: tuple[int | str, ...],
    title: str,
    credit: Credit | None = None,
) -> list[Rollout]:
    """Graded responses of the engine's policy, without steps: independent ones, or `credit`'s."""
    with Meter(title, len(prompts_P) * num_samples, 0, sampler.engine) as meter:

        def advance(_: Rollout) -> None:
            meter.advance()

        pending = credit.submit(sampler, prompts_P, stream, advance) if credit else None
        pending = pending or submit_rollouts(
            sampler, prompts_P, num_samples, stream, advance, with_logprobs=True
        )
        sampler.finish(meter.tick)
    place = {prompt.problem.id: number for number, prompt in enumerate(prompts_P)}
    rollouts = pending.settle()
    return [rollouts[key] for key in sorted(rollouts, key=lambda key: (place[key[0]], key[1]))]


@dataclass(frozen=True)
class RolloutState:
    """State `step` of a rollout: the prompt and the response before that step."""

    rollout: Rollout
    step: int

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        return self.rollout.prefix_ids(self.step)

    def after(self, step_ids: tuple[int, ...] = ()) -> State:
        """The state that continuations start from, or that after another step at it."""
        prompt = Prompt(self.rollout.problem, self.rollout.prompt_ids)
        return State(prompt, (*self.prefix_ids, *step_ids))

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """Two states of one problem and prefix are the same state."""
        return self.rollout.problem.id, self.prefix_ids

    @property
    def columns(self) -> dict[str, Any]:
        """Its columns in tables."""
        return {
            "problem_id": self.rollout.problem.id,
            "rollout_index": self.rollout.rollout_index,
            "step_index": self.step,
            "num_steps": len(self.rollout.spans_S),
            "prefix_length": len(self.prefix_ids),
            "response_length": len(self.rollout.response_ids),
        }


def rollout_iteration(run_path: Path, checkpoint: int) -> int | None:
    """The iteration of the rollouts for a checkpoint's values; None where there are none.

    A checkpoint sampled the next iteration. A run's last policy sampled none: it gets its own
    iteration, sampled one update earlier.
    """
    saved = RunDir(run_path).iterations("rollouts")
    return next((i for i in (checkpoint + 1, checkpoint) if i in saved), None)


def choose_states(
    rollouts: Sequence[Rollout], num_states: int, seed: int, iteration: int, place: str
) -> list[RolloutState]:
    """The queries of the problems that are met, and then `num_states` boundaries, or fewer.

    Raises `UserError`, beginning with `place`, where there are none.
    """
    boundaries = sample_boundaries(rollouts, num_states, seed, iteration)
    if not boundaries:
        raise UserError(f"{place}: no rollout of iteration {iteration} has two steps")
    return [*query_states(boundaries), *boundaries]


def sample_boundaries(
    rollouts: Sequence[Rollout], num_states: int, seed: int, iteration: int
) -> list[RolloutState]:
    """Up to `num_states` distinct step boundaries between query and end, in the rollouts' order.

    All boundaries of all rollouts are equally likely; one with a prefix that was drawn before is
    skipped. The end of a response is none: its value is its reward.
    """
    boundaries = [
        RolloutState(one, step) for one in rollouts for step in range(1, len(one.spans_S))
    ]
    places = list(range(len(boundaries)))
    random.Random(derive_seed(seed, iteration, "states")).shuffle(places)
    first = {boundaries[place].key: place for place in reversed(places)}  # of each prefix
    chosen = sorted(
        first.values(), key=dict(zip(places, range(len(places)), strict=True)).__getitem__
    )[:num_states]
    return [boundaries[place] for place in sorted(chosen)]


def query_states(states: Sequence[RolloutState]) -> list[RolloutState]:
    """The states before the first step of the problems of `states`, one a problem."""
    first = {state.rollout.problem.id: state.rollout for state in reversed(states)}
    return [RolloutState(rollout, 0) for rollout in reversed(first.values())]


def _rollout(row: dict[str, Any], problem: Problem) -> Rollout:
    starts, length = row["step_starts"], len(row["response_ids"])
    return Rollout(
        problem=problem,
        rollout_index=row["rollout_index"],
        prompt_ids=tuple(row["prompt_ids"]),
        response_ids=tuple(row["response_ids"]),
        logprobs_T=tuple(row["logprobs"]),
        finish_reason=row["finish_reason"],
        text=row["text"],
        reward=row["reward"],
        spans_S=tuple(StepSpan(a, b) for a, b in zip(starts, [*starts[1:], length], strict=True)),
        turns=tuple(map(Turn, starts, *(row[name] for name in TURN_COLUMNS.names)))
        if TURN_COLUMNS.names[0] in row
        else (),
    )


def _set_values(
    rollouts: Sequence[Rollout],
    name: str,
    rows: dict[tuple[str, int, int], dict[str, Any]],
    column: str,
    place: str,
) -> None:
    """Sets a predictor's values, if the rows hold any: all states must have one.

    Continuations may leave states out: their rows have no returns.
    """
    saved = {key: row for key, row in rows.items() if row[column] not in (None, [])}
    has_returns = name != CRITIC and any(row["returns_K"] for row in saved.values())
    if has_returns:
        saved = rows
    for rollout in rollouts if saved else ():
        keys_S = [(*rollout.key, step) for step in range(len(rollout.spans_S))]
        if not saved.keys() >= set(keys_S):
            raise UserError(
                f"{place}: the values of {name} lack a state of rollout {rollout.rollout_index} of "
                f"problem {rollout.problem.id}"
            )
        saved_S = [saved[key] for key in keys_S]
        if has_returns:
            rollout.returns_S[name] = tuple(
                StateValue(tuple(row["returns_K"]), row["num_tokens"]) for row in saved_S
            )
            rollout.steps_S[f"values/{name}"] = [value.mean for value in rollout.returns_S[name]]
        else:
            rollout.steps_S[f"values/{name}"] = [row[column] for row in saved_S]
            if name != CRITIC:  # whose rows count the continuations' tokens
                rollout.steps_S[f"tokens/{name}"] = [row["num_tokens"] for row in saved_S]
