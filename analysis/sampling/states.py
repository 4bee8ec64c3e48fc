"""Which states of an iteration's rollouts an analysis looks at: a seeded sample."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vineppo.run_dir import RunDir
from vineppo.seeds import derive_seed


@dataclass(frozen=True)
class RolloutState:
    """State `step_index` of a row of `rollouts/`: the prompt and the first tokens of a response."""

    row: dict[str, Any]
    step_index: int

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        return tuple(self.row["response_ids"][: self.row["step_starts"][self.step_index]])

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        """Two states of one problem and prefix are the same state."""
        return self.row["problem_id"], self.prefix_ids


def rollout_iteration(run_path: Path, checkpoint: int) -> int | None:
    """The rollouts on which a checkpoint's values are looked at; None where there are none.

    Those that it sampled, which are of the next iteration; of the last policy of a run, which
    sampled none, those of its own iteration, sampled one update earlier.
    """
    saved = RunDir(run_path).iterations("rollouts")
    return next((i for i in (checkpoint + 1, checkpoint) if i in saved), None)


def sample_boundaries(
    rows: Sequence[dict[str, Any]], num_states: int, seed: int, iteration: int
) -> list[RolloutState]:
    """Up to `num_states` distinct step boundaries between query and end, in the order of the rows.

    Boundaries are drawn one after another, each of all rollouts as likely; one whose prefix has
    been drawn is passed over. The end of a response, whose value is its reward, is none of them.
    """
    boundaries = [
        RolloutState(row, step) for row in rows for step in range(1, len(row["step_starts"]))
    ]
    places = list(range(len(boundaries)))
    random.Random(derive_seed(seed, iteration, "states")).shuffle(places)
    chosen: dict[tuple[str, tuple[int, ...]], int] = {}
    for place in places:
        if len(chosen) == num_states:
            break
        chosen.setdefault(boundaries[place].key, place)
    return [boundaries[place] for place in sorted(chosen.values())]


def query_states(states: Sequence[RolloutState]) -> list[RolloutState]:
    """The states before the first step of the problems of `states`, one a problem."""
    first = {state.row["problem_id"]: state.row for state in reversed(states)}
    return [RolloutState(row, 0) for row in reversed(first.values())]
