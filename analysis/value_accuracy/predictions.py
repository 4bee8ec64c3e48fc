"""The predictions for the truth states of run directories; nothing is sampled."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.frames import read_config
from analysis.rollout_files import read_rollouts, values_by_state
from analysis.truth import TruthState, find_truth, read_truth
from analysis.value_accuracy.predictors import (
    MC,
    MC_TRAIN,
    Experience,
    StateKey,
    order,
    predict,
    split_name,
)
from analysis.value_accuracy.states import StateRow
from vineppo.errors import UserError
from vineppo.run_dir.files import strict_json


@dataclass(frozen=True)
class Wanted:
    """What to predict with: `predictors` by name, or None for all that a run has.

    `continuations` are then the K of MC, to which that of the run's training is added.
    """

    predictors: tuple[str, ...] | None
    continuations: tuple[int, ...]


@dataclass(frozen=True)
class _Source:
    """A truth table and the iteration of the run that its states are of."""

    path: Path
    config: Mapping[str, Any]
    table: Path
    states: list[TruthState]
    experience: Experience

    @property
    def iteration(self) -> int:
        return self.states[0].rollout_iteration

    @property
    def training_k(self) -> int:
        """The K of the run's Monte-Carlo values; 0 where the iteration has none."""
        num: int = self.config["credit"].get("num_continuations") or 0
        return num if any(s.key in self.experience.returns_K for s in self.states) else 0

    @property
    def num_draws(self) -> int:
        return min(len(state.draws_D) for state in self.states)


def run_rows(
    path: Path, truth: Sequence[Path], folders: Sequence[Path], wanted: Wanted
) -> list[StateRow]:
    """The states of all truth tables of a run, each with every predictor; for `find_truth`.

    Raises `UserError` for a run without truth or without the rollouts of its states, for a truth of
    other rollouts than the run's, and for a wanted predictor that it does not have.
    """
    config = read_config(path)
    if not isinstance(config.get("seed"), int):
        raise UserError(f"{path}: config.json has no seed")
    rows = []
    for table in find_truth(path, truth, folders).values():
        states = read_truth(table)
        source = _Source(path, config, table, states, _experience(path, table, states))
        for predictor in _choose(source, wanted):
            rows += _predicted(source, predictor)
    return rows


def task_digest(config: Mapping[str, Any]) -> str:
    """Tells runs of different tasks apart where there is no config any more."""
    return hashlib.blake2b(strict_json(config.get("task")), digest_size=8).hexdigest()


def _experience(path: Path, table: Path, states: Sequence[TruthState]) -> Experience:
    iteration = states[0].rollout_iteration
    rollouts = {
        (row["problem_id"], row["rollout_index"]): row for row in read_rollouts(path, iteration)
    }
    rewards: dict[str, dict[int, float]] = {}
    for (problem, index), row in rollouts.items():
        rewards.setdefault(problem, {})[index] = row["reward"]
    for state in states:
        found = rollouts.get((state.problem_id, state.rollout_index))
        if found is None or not _is_of(state, found):
            raise UserError(
                f"{table}: state {state.step_index} of rollout {state.rollout_index} of "
                f"{state.problem_id} is none of {path}'s rollouts of iteration {iteration}"
            )
    return Experience(rewards, *_values(path, iteration))


def _is_of(state: TruthState, rollout: Mapping[str, Any]) -> bool:
    starts = rollout["step_starts"]
    return (
        len(starts) == state.num_steps
        and state.step_index < len(starts)
        and starts[state.step_index] == state.prefix_length
        and len(rollout["response_ids"]) == state.response_length
        and rollout["reward"] == state.reward
    )


def _values(
    path: Path, iteration: int
) -> tuple[dict[StateKey, float], dict[StateKey, tuple[float, ...]]]:
    """Critic values and training returns by state; the runs without either write no table."""
    critic_values, returns_K = {}, {}
    for key, row in values_by_state(path, iteration).items():
        if row["critic_value"] is not None and math.isfinite(row["critic_value"]):
            critic_values[key] = row["critic_value"]
        if row["returns_K"]:
            returns_K[key] = tuple(row["returns_K"])
    return critic_values, returns_K


def _choose(source: _Source, wanted: Wanted) -> list[str]:
    """The predictors of a table, in their order."""
    if wanted.predictors is not None:
        for predictor in wanted.predictors:
            _check(source, predictor)
        return sorted(wanted.predictors, key=order)
    trained = source.training_k
    fresh = {*wanted.continuations, *([trained] if 0 < trained <= source.num_draws else [])}
    training = {k for k in {*wanted.continuations, trained} if 0 < k <= trained}
    chosen = ["group_mean", "group_mean_others", "constant"]
    chosen += [f"{MC}_{k}" for k in fresh] + [f"{MC_TRAIN}_{k}" for k in training]
    for predictor in chosen:
        _check(source, predictor)
    if any(state.key in source.experience.critic_values for state in source.states):
        chosen.append("critic")
    return sorted(chosen, key=order)


def _check(source: _Source, predictor: str) -> None:
    """Refuses a predictor that a run cannot have."""
    kind, num_draws = split_name(predictor)
    where = f"{source.path} has no {{}} in its values of iteration {source.iteration}"
    if kind == MC and (num_draws or 0) > source.num_draws:
        raise UserError(
            f"{source.table} holds {source.num_draws} draws a state, {predictor} needs {num_draws}"
        )
    if kind == MC_TRAIN and (num_draws or 0) > source.training_k:
        raise UserError(
            f"{where.format('Monte-Carlo returns')}, {predictor} needs {num_draws}"
            if source.training_k == 0
            else f"{source.path} trained with K = {source.training_k}, {predictor} needs "
            f"{num_draws}"
        )
    if kind == "critic" and not any(
        state.key in source.experience.critic_values for state in source.states
    ):
        raise UserError(f"{where.format('critic')}, which --predictors critic asks for")


def _predicted(source: _Source, predictor: str) -> list[StateRow]:
    rows = []
    for state in source.states:
        prediction = predict(predictor, state, source.experience)
        rows.append(
            StateRow(
                run_dir=str(source.path),
                name=str(source.config.get("name", source.path.name)),
                seed=source.config["seed"],
                task=task_digest(source.config),
                checkpoint=state.checkpoint,
                rollout_iteration=state.rollout_iteration,
                problem_id=state.problem_id,
                rollout_index=state.rollout_index,
                step_index=state.step_index,
                num_steps=state.num_steps,
                position=state.prefix_length / state.response_length,
                reward=state.reward,
                num_samples=state.num_samples,
                num_correct=state.num_correct,
                predictor=predictor,
                num_returns=prediction.num_returns,
                prediction=prediction.value,
            )
        )
    return rows
