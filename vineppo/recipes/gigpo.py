"""GiGPO: credit by groups of rollouts, and of turns that began in the same state.

Feng et al. 2025, "Group-in-Group Policy Optimization" (arXiv:2505.10978). Turns are compared by the
state that they began in, never by their number. Where the policy decides when to stop, the rollouts
that get to turn t are a selection. Rewards centred on their mean do not say whether continuing was
right (docs/environments.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import Any, Literal

from vineppo.config.require import require
from vineppo.config.schema.scalars import NonNegative, Share
from vineppo.credit import Credit
from vineppo.credit.groups import STD_EPSILON, group_returns
from vineppo.types import Rollout


@dataclass(frozen=True)
class GigpoCredit(Credit):
    """A = A_E + w A_S on the tokens of a turn, w the `step_weight` (eq. 8).

    A_E compares R_i with the rollouts' (eq. 3). A_S compares the turn's return Σ_k γ^k r_{t+k} with
    the returns of all turns of the problem that began in its state (eq. 7); see `relative`. A state
    that no other turn began in, or with baseline "others" no other rollout's, has A_S = 0.

    With "others" and without `normalize_std`, A_E is RLOO's. In expectation A is then the advantage
    times 1 + w P, P the probability that another rollout passes the state: no baseline depends on
    the action. The paper's "mean" holds the own return, and the returns of the rollout's other
    visits, which may depend on it.
    """

    compares_rollouts = True

    gamma: Share  # per turn
    step_weight: NonNegative  # of the turns' part beside the rollouts'
    baseline: Literal["mean", "others"]  # of all that are compared, or of the other rollouts'
    normalize_std: bool  # by the deviation of what is compared

    def check(self, key: str, config: Any) -> None:
        require(
            config.task.environment is not None,
            f"task.environment must not be null for {key}.kind 'gigpo'",
        )
        require(
            config.reference.kl_in == "loss",
            f"reference.kl_in must be 'loss' for {key}.kind 'gigpo' (a turn's return holds no KL), "
            "got 'reward'",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        whole = [("", index, total) for index, total in enumerate(group_returns(rollouts_G))]
        visits = [
            (turn, (turn.state, index, to_go))
            for index, rollout in enumerate(rollouts_G)
            for turn, to_go in zip(rollout.turns, turn_returns(rollout, self.gamma), strict=True)
        ]
        advantages_G: list[list[float]] = [[0.0] * len(r.response_ids) for r in rollouts_G]
        for turn, (state, index, to_go) in visits:
            group = [visit for _, visit in visits if visit[0] == state]
            of_rollout = relative(self, whole[index][2], index, whole)
            advantage = of_rollout + self.step_weight * relative(self, to_go, index, group)
            advantages_G[index][turn.start : turn.end] = [advantage] * (turn.end - turn.start)
        return advantages_G


def turn_returns(rollout: Rollout, gamma: float) -> list[float]:
    """Σ_k γ^k r_{t+k} of every turn: rewards [0, 1], γ = 0.5 → [0.5, 1]."""
    returns: list[float] = []
    following = 0.0
    for turn in reversed(rollout.turns):
        following = turn.reward + gamma * following
        returns.append(following)
    return returns[::-1]


def relative(
    config: GigpoCredit, outcome: float, index: int, group: Sequence[tuple[str, int, float]]
) -> float:
    """(outcome − mean) / (std + 1e-6), or outcome − mean, of a group of (state, rollout, return).

    The mean is of the whole group, or with baseline "others" of the other rollouts' (rollout
    `index` has this outcome); the deviation is the sample's. Outcome 1 of [1, 0, 0.5]: 0.5 by the
    mean, 0.75 by the others'. Nothing to compare with gives 0, as do equal returns.
    """
    is_mean = config.baseline == "mean"
    pool = [other for _, rollout, other in group if is_mean or rollout != index]
    if len(group) < 2 or not pool:
        return 0.0
    centered = math.fsum(outcome - other for other in pool) / len(pool)
    if not config.normalize_std:
        return centered
    return centered / (stdev([other for *_, other in group]) + STD_EPSILON)
