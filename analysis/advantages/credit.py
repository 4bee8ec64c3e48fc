"""The advantages of an iteration's steps, as trained and as changes of each kind of value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.rollout_files import ADVANTAGES, read_rollouts, values_by_state
from analysis.rollout_truths import truths_of_iteration
from vineppo.errors import UserError

# Where an advantage comes from: the credit estimator itself, or V(s_{i+1}) − V(s_i) with the
# reward as the last value, V being Monte-Carlo, the critic's or the ground truth.
TRAINED, MC, CRITIC, TRUTH = "trained", "mc", "critic", "truth"
SOURCES = (TRAINED, MC, CRITIC, TRUTH)

Row = dict[str, Any]
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class RunIteration:
    """Which run and which of its iterations something is of."""

    run_dir: str
    name: str
    seed: int | None
    iteration: int


@dataclass(frozen=True)
class Credit:
    """The rollouts of an iteration with what is known of their steps.

    `values[source]` holds for each rollout the values of its S states and, as the last, its reward:
    S + 1 numbers, NaN where unknown. A source that knows nothing is not there.
    """

    of: RunIteration
    rows: list[Row]
    values: dict[str, Arrays]

    def advantages(self, source: str) -> Arrays:
        """[S] of every rollout, NaN where unknown."""
        if source == TRAINED:
            return [np.array(row["advantages_S"], dtype=float) for row in self.rows]
        return [np.diff(values) for values in self.values[source]]

    @property
    def sources(self) -> list[str]:
        return [source for source in SOURCES if source == TRAINED or source in self.values]

    @property
    def values_source(self) -> str | None:
        """Whose changes of value tell the critical steps: the run's own, else the truth's."""
        return next((source for source in SOURCES if source in self.values), None)


def read_credit(path: Path, of: RunIteration, truths: Mapping[int, Path]) -> Credit:
    """`truths` are the run's ground-truth tables by checkpoint.

    Raises `UserError` naming the run for tables that are damaged, lack a column or do not fit.
    """
    iteration = of.iteration
    rows = read_rollouts(path, iteration, ("prompt_ids", ADVANTAGES))
    values: dict[str, Arrays] = {}
    if by_state := values_by_state(path, iteration):
        values |= own_values(rows, by_state, f"{path}: iteration {iteration}")
    states = truths_of_iteration(dict(truths), iteration, rows)
    if states:
        truth = {prefix: state.value for prefix, state in states.items()}
        values[TRUTH] = [with_reward(row, true_values(row, truth)) for row in rows]
    return Credit(of, rows, values)


def own_values(
    rows: Sequence[Row], by_state: Mapping[tuple[str, int, int], Row], place: str
) -> dict[str, Arrays]:
    """The values in a run's `values/` table, Monte-Carlo or the critic's or both.

    Raises `UserError` where a state of the rollouts is missing.
    """
    found: dict[str, Arrays] = {MC: [], CRITIC: []}
    for row in rows:
        states = []
        for step in range(len(row["step_starts"])):
            key = row["problem_id"], row["rollout_index"], step
            if key not in by_state:
                raise UserError(f"{place}: its values lack the state {key} of its rollouts")
            states.append(by_state[key])
        means = [np.mean(s["returns_K"]) if s["returns_K"] else None for s in states]
        found[MC].append(with_reward(row, means))
        found[CRITIC].append(with_reward(row, [s["critic_value"] for s in states]))
    return {
        source: arrays
        for source, arrays in found.items()
        if any(np.isfinite(values[:-1]).any() for values in arrays)
    }


def true_values(row: Row, truth: Mapping[tuple[str, tuple[int, ...]], float]) -> list[float | None]:
    """The truth of a rollout's states, by problem and prefix; None where it was not sampled."""
    ids = tuple(row["response_ids"])
    return [truth.get((row["problem_id"], ids[:start])) for start in row["step_starts"]]


def with_reward(row: Row, values_S: Sequence[Any]) -> np.ndarray:
    """The values of the states and the reward, in which the last one ends; None becomes NaN.

    Values (0.5, None) of a rollout with reward 1 are (0.5, NaN, 1); so are the infinite ones NaN
    that a critic gives which has diverged.
    """
    values = np.array([*values_S, row["reward"]], dtype=float)
    return np.where(np.isfinite(values), values, np.nan)
