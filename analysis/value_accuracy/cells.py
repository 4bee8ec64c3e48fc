"""Cells: the states on which one number of a table rests, as arrays.

A cell is a predictor at a checkpoint of a run, or of all seeds of a method together, on the step
boundaries or on the queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from analysis.stats.bootstrap import cluster_index
from analysis.stats.errors import expected_absolute_error
from analysis.value_accuracy.predictors import order, split_name
from analysis.value_accuracy.states import StateRow
from vineppo.errors import UserError

ALL_SEEDS = "all"


@dataclass(frozen=True)
class Cell:
    """N states with a prediction; `num_left_out` have none.

    `problem_N` numbers the problems, which the bootstrap draws: one that several seeds met is one.
    `unit_N` numbers the problems of each seed apart: within such a unit there is one policy.
    `key_N` names the states, so that two predictors can be compared on the states of both.
    """

    run_dir: str | None  # None of several seeds
    name: str
    seed: str
    checkpoint: int
    rollout_iteration: int
    is_own_policy: bool
    group: str
    predictor: str
    num_seeds: int
    num_left_out: int
    num_samples: int
    key_N: list[tuple[int, str, int, int]]
    values_N: np.ndarray
    num_correct_N: np.ndarray
    problem_N: np.ndarray
    unit_N: np.ndarray
    position_N: np.ndarray
    reward_N: np.ndarray
    num_returns: int | None  # the fewest that a prediction averages

    @cached_property
    def truths(self) -> np.ndarray:
        """The measured values t = c/m, [N]."""
        return self.num_correct_N / self.num_samples

    @property
    def num_draws(self) -> int | None:
        """K of a Monte-Carlo estimate of the state."""
        return split_name(self.predictor)[1]

    @cached_property
    def floors(self) -> np.ndarray:
        """E|v − t| of a perfect v, [N]: the mean of K draws, or p itself where there are none.

        `errors.expected_absolute_error` at the measured value; that of p is the noise of
        the truth alone.
        """
        counts, place_N = np.unique(self.num_correct_N, return_inverse=True)
        values, m = counts / self.num_samples, self.num_samples
        if self.num_draws is None:
            return expected_absolute_error(values, m, None)[place_N]
        return expected_absolute_error(values, self.num_draws, m)[place_N]

    @property
    def log_margin(self) -> float:
        """How far the log score keeps a prediction from 0 and 1 (`calibration.clipped`).

        1/(2n + 2) of a mean of n returns; of a critic, n is the truth's number of returns.
        """
        num = self.num_samples if self.num_returns is None else self.num_returns
        return 1 / (2 * num + 2)

    def columns(self) -> dict[str, Any]:
        """What a table says of where its numbers come from."""
        return {
            "run_dir": self.run_dir,
            "name": self.name,
            "seed": self.seed,
            "checkpoint": self.checkpoint,
            "rollout_iteration": self.rollout_iteration,
            "is_own_policy": int(self.is_own_policy),
            "predictor": self.predictor,
            "num_draws": self.num_draws,
            "num_samples": self.num_samples,
            "num_seeds": self.num_seeds,
        }

    def chosen(self, index: np.ndarray) -> "Cell":
        """The states of a mask or of places."""
        arrays = ("values_N", "num_correct_N", "problem_N", "unit_N", "position_N", "reward_N")
        places = np.arange(len(self.key_N))[index]
        return replace(
            self,
            key_N=[self.key_N[place] for place in places],
            **{name: getattr(self, name)[places] for name in arrays},
        )


def make_cells(rows: Sequence[StateRow]) -> list[Cell]:
    """The cells of every seed, and of all seeds of a name where there are several.

    In the order of names, checkpoints, seeds (all last), groups and predictors. A predictor that
    says nothing at all of a cell's states has none. Raises `UserError` where truths of one cell
    come from different numbers of samples.
    """
    names = list(dict.fromkeys(row.name for row in rows))
    grouped: dict[tuple[int, int, str, str], dict[int, list[StateRow]]] = {}
    for row in rows:
        key = names.index(row.name), row.checkpoint, row.group, row.predictor
        grouped.setdefault(key, {}).setdefault(row.seed, []).append(row)
    found = []
    for (place, checkpoint, group, predictor), by_seed in grouped.items():
        seeds: list[tuple[float, str, list[StateRow]]] = [
            (seed, str(seed), of) for seed, of in by_seed.items()
        ]
        if len(by_seed) > 1:
            every = [row for seed in sorted(by_seed) for row in by_seed[seed]]
            seeds.append((float("inf"), ALL_SEEDS, every))
        for rank, seed, of in seeds:
            cell = _cell(of, seed)
            if cell is not None:
                found.append(((place, checkpoint, rank, group, order(predictor)), cell))
    return [cell for _, cell in sorted(found, key=lambda item: item[0])]


def _cell(rows: Sequence[StateRow], seed: str) -> Cell | None:
    known = [row for row in rows if row.prediction is not None]
    if not known:
        return None
    first = known[0]
    num_samples = sorted({row.num_samples for row in known})
    if len(num_samples) > 1:
        raise UserError(
            f"{first.name}, checkpoint {first.checkpoint}: its truth must be of one number of "
            f"samples, got {' and '.join(map(str, num_samples))}"
        )
    num_returns = [row.num_returns for row in known if row.num_returns is not None]
    return Cell(
        run_dir=None if seed == ALL_SEEDS else first.run_dir,
        name=first.name,
        seed=seed,
        checkpoint=first.checkpoint,
        rollout_iteration=first.rollout_iteration,
        is_own_policy=all(row.is_own_policy for row in known),
        group=first.group,
        predictor=first.predictor,
        num_seeds=len({row.seed for row in known}),
        num_left_out=len(rows) - len(known),
        num_samples=num_samples[0],
        key_N=[(r.seed, r.problem_id, r.rollout_index, r.step_index) for r in known],
        values_N=np.array([row.prediction for row in known], dtype=float),
        num_correct_N=np.array([row.num_correct for row in known]),
        problem_N=cluster_index([row.problem_id for row in known])[0],
        unit_N=cluster_index([f"{row.seed} {row.problem_id}" for row in known])[0],
        position_N=np.array([row.position for row in known]),
        reward_N=np.array([row.reward for row in known]),
        num_returns=min(num_returns, default=None),
    )
