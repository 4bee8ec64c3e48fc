"""Steps of many rollouts as flat arrays, and which of them are critical."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CORRECT_ABOVE = 0.5  # of the reward, as in a run's value diagnostics
ALL, CORRECT, INCORRECT = "all", "correct", "incorrect"
GROUPS = (ALL, CORRECT, INCORRECT)
# Advantages of a rollout within this share of its largest are as large: those of the group
# estimators are one number, but for rounding and for the KL that may be shaped into the reward.
TIE = 0.01


@dataclass(frozen=True)
class Steps:
    """N steps of known advantage, [N] each.

    `rollout_N` numbers the rollouts, `problem_N` names their problems. `critical_N` are the shares
    of a rollout's critical step: 1 for the step of the largest |A|, divided among those that tie;
    `even_N` are 1/S. Both are NaN in rollouts with a step of unknown advantage, and in those whose
    advantages are all near zero, where no step is critical.
    """

    problem_N: np.ndarray
    rollout_N: np.ndarray
    step_N: np.ndarray
    num_steps_N: np.ndarray
    is_correct_N: np.ndarray
    advantage_N: np.ndarray
    critical_N: np.ndarray
    even_N: np.ndarray

    def __len__(self) -> int:
        return len(self.advantage_N)

    def where(self, chosen_N: np.ndarray) -> "Steps":
        return Steps(**{name: of_N[chosen_N] for name, of_N in vars(self).items()})

    def of_group(self, group: str) -> "Steps":
        if group == ALL:
            return self
        return self.where(self.is_correct_N == (group == CORRECT))


def flatten(
    rows: Sequence[dict[str, Any]], advantages: Sequence[np.ndarray], near_zero_below: float
) -> Steps:
    """The steps whose advantage is known, of rollouts with `advantages` of shape [S] each."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in Steps.__dataclass_fields__}
    for rollout, (row, advantages_S) in enumerate(zip(rows, advantages, strict=True)):
        num_steps = len(advantages_S)
        critical_S = critical_shares(advantages_S, near_zero_below)
        of_rollout = {
            "problem_N": np.full(num_steps, row["problem_id"]),
            "rollout_N": np.full(num_steps, rollout),
            "step_N": np.arange(num_steps),
            "num_steps_N": np.full(num_steps, num_steps),
            "is_correct_N": np.full(num_steps, row["reward"] > CORRECT_ABOVE),
            "advantage_N": advantages_S,
            "critical_N": critical_S,
            "even_N": np.where(np.isnan(critical_S), np.nan, 1 / num_steps),
        }
        is_known_S = ~np.isnan(advantages_S)
        for name, of_S in of_rollout.items():
            columns[name].append(of_S[is_known_S])
    return Steps(**{name: np.concatenate(parts) for name, parts in columns.items()})


def critical_shares(advantages_S: np.ndarray, near_zero_below: float) -> np.ndarray:
    """1 for the step of the largest |A|, divided among those that tie; NaN where none is.

    (0.1, −0.4, 0.4) gives (0, ½, ½); (0, 0.01) of a limit of 0.05 and (0.1, NaN) give NaN.
    """
    sizes_S = np.abs(advantages_S)
    largest = sizes_S.max()  # NaN of a NaN
    if not largest >= near_zero_below:
        return np.full(len(sizes_S), np.nan)
    is_largest_S = sizes_S >= (1 - TIE) * largest
    return is_largest_S / is_largest_S.sum()
