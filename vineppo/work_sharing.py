"""Several replicas of the engine sample the values of all rollouts together.

A replica samples the rollouts of its own problems, and what all of a problem's rollouts share: the
values of s_0. The later states of a finished rollout go to one replica: its own while that has no
more left to do than the others, else, at the next exchange, to the one that has least. Exchanges
come after so many engine steps, never by the clock, so that a repeated run deals alike: a replica
that has nothing left waits in one until the others have made their steps. Samples depend on their
seeds alone, not on who draws them. A lone replica is never behind: it samples all states as soon as
their rollout has finished, and its exchanges change nothing and cost no step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from vineppo.distributed import gather_replicas, replica
from vineppo.rollouts import Sampler
from vineppo.values import StateValues, SteppedResponse

STEPS_BETWEEN_EXCHANGES = 32


@dataclass(frozen=True)
class _Report:
    """What a replica has left: tokens that its requests may have at most, and rollouts to deal."""

    budget: int
    waiting: list[tuple[int, SteppedResponse]]  # with the budget of their states


class WorkSharing:
    """The part of one replica; all of them must meet in every `exchange`.

    `num_rollouts` are this replica's own.
    """

    def __init__(self, sampler: Sampler, values: StateValues, num_rollouts: int) -> None:
        self._engine = sampler.engine
        self._values = values
        self._rollouts_left = num_rollouts
        self._max_tokens = sampler.sampling.max_tokens
        self._waiting: list[tuple[int, SteppedResponse]] = []
        self._is_ahead = True  # has no more to do than the others
        self._num_steps = 0

    def add(self, stepped: SteppedResponse) -> None:
        """A finished rollout of this replica's own."""
        self._rollouts_left -= 1
        self._values.submit(stepped, 0, 1)
        if self._is_ahead:
            self._values.submit(stepped, 1)
        else:
            self._waiting.append((self._values.budget(stepped, 1), stepped))

    def step(self) -> bool:
        """A step of the engine, or an exchange where one is due; False when all is done."""
        is_due = self._num_steps == STEPS_BETWEEN_EXCHANGES
        if self._engine.num_unfinished and not is_due:
            self._engine.step()
            self._num_steps += 1
            return True
        return self._exchange()

    def _exchange(self) -> bool:
        self._num_steps = 0
        budget = self._rollouts_left * self._max_tokens + self._values.budget_left
        ranks_a_replica = self._engine.ranks_a_replica
        mine = replica(ranks_a_replica)
        reports = gather_replicas(_Report(budget, self._waiting), ranks_a_replica)
        budgets = [report.budget for report in reports]
        waiting = [item for report in reports for item in report.waiting]
        self._waiting = []
        owners = deal(budgets, [cost for cost, _ in waiting])
        for owner, (cost, stepped) in zip(owners, waiting, strict=True):
            budgets[owner] += cost
            if owner == mine:
                self._values.submit(stepped, 1)
        self._is_ahead = budgets[mine] <= mean(budgets)
        return sum(budgets) > 0


def deal(budgets_R: Sequence[int], costs: Sequence[int]) -> list[int]:
    """The replica of each item: the costliest first, each to the one that then has least.

    `deal([10, 0], [3, 8, 4])` is [0, 1, 1]: 8 goes to the idle one, which with 8 against 10 takes
    4 as well, and 3 to the other.
    """
    loads = list(budgets_R)
    owners = [0] * len(costs)
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owners[item] = min(range(len(loads)), key=loads.__getitem__)
        loads[owners[item]] += costs[item]
    return owners
