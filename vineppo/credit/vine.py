"""Steps, and VinePPO's advantage: a difference of their values (arXiv:2410.01679, section 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema.scalars import CountOrZero
from vineppo.config.schema.values import IdenticalPrefixes, MonteCarloValues, StatesConfig
from vineppo.credit import Credit
from vineppo.types import MONTE_CARLO, Rollout, StateValue, StepSpan


@dataclass(frozen=True)
class ContinuationCredit(Credit):
    """An estimator that is fed the returns of `num_continuations` from step boundaries.

    It is 0 if `values.credit` names another predictor. `states` chooses the boundaries.
    """

    fed_by = MONTE_CARLO

    num_continuations: CountOrZero
    identical_prefixes: IdenticalPrefixes = "share"
    states: StatesConfig | None = None

    @property
    def monte_carlo(self) -> MonteCarloValues | None:
        if not self.num_continuations:
            return None
        return MonteCarloValues(
            "monte_carlo", self.num_continuations, self.identical_prefixes, self.states
        )

    def check(self, key: str, config: Any) -> None:
        require(
            self.num_continuations > 0 or config.values.credit is not None,
            f"{key}.num_continuations must be at least 1 where values.credit is null, got 0",
        )
        require(
            self.states is None or self.num_continuations > 0,
            f"{key}.states must be null where {key}.num_continuations is 0, got "
            f"{self.states and self.states.kind!r}",
        )


@dataclass(frozen=True)
class VineCredit(ContinuationCredit):
    """VinePPO: differences of the values of states (arXiv:2410.01679, section 4).

    With `own_return` the rollout's own return joins those of the state after a step.
    """

    own_return: bool = False

    def check(self, key: str, config: Any) -> None:
        super().check(key, config)
        feeding = config.values.credit
        sampled = config.continuations.get(feeding or MONTE_CARLO)
        require(
            sampled is not None or not self.own_return,
            f"{key}.own_return must be false where values.credit names a predictor without "
            f"continuations (there are no returns to join), got true with {feeding}",
        )
        require(
            sampled is None or sampled.states is None or config.rollouts.num_samples >= 2,
            "rollouts.num_samples must be at least 2 for values of some states (the others' mean "
            "reward is the baseline before the first of them), got 1",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        """`vine_advantages`, each step's on all its tokens; the reward is Σ rewards_T.

        A KL penalty shaped into `rewards_T` enters the last difference only: V̂ holds none of it.
        Values [0.5, 0.25] before steps of 2 and 1 tokens, reward 1 → [−0.25, −0.25, 0.75]. Of
        continuations it is `piece_advantages`; the root of those without s_0 is the mean reward of
        the others.
        """
        returns_G = [sum(rollout.rewards_T) for rollout in rollouts_G]
        advantages_G = []
        for index, (rollout, reward) in enumerate(zip(rollouts_G, returns_G, strict=True)):
            states_S = rollout.returns_S.get(rollout.values_from or "")
            if states_S is None:
                advantages_S = vine_advantages(rollout.state_values_S, reward)
            else:
                others = [*returns_G[:index], *returns_G[index + 1 :]]
                root = math.fsum(others) / max(len(others), 1)
                advantages_S = piece_advantages(states_S, reward, root, self.own_return)
            advantages_G.append(broadcast(advantages_S, rollout.spans_S))
        return advantages_G


def vine_advantages(values_S: Sequence[float], reward: float) -> list[float]:
    """A_i = V̂(s_{i+1}) − V̂(s_i) for the S steps, with V̂(s_S) = `reward` exactly.

    `values_S[i]` is the value of the state before step i, in the paper a Monte-Carlo one. The
    paper's γ = 1 is built in: a discount would have to enter the continuations' returns as well.
    The advantages sum to reward − values_S[0]. Values [0.5, 0.25] and reward 1 → [−0.25, 0.75].
    """
    after_S = [*values_S[1:], reward]
    return [after - before for before, after in zip(values_S, after_S, strict=True)]


def next_values(
    states_S: Sequence[StateValue], reward: float, own_return: bool = False
) -> list[float]:
    """Of each step the value of the first sampled state after it, or the reward.

    Of V̂ = [–, –, 0.5, –]: [0.5, 0.5, R, R]. `own_return` joins R to its K returns.
    """
    after_S, after = [], reward  # from the last step to the first
    for state in reversed(states_S):
        after_S.append(after)
        if state.returns_K:
            num = len(state.returns_K)
            after = (num * state.mean + reward) / (num + 1) if own_return else state.mean
    return after_S[::-1]


def piece_advantages(
    states_S: Sequence[StateValue], reward: float, root: float, own_return: bool
) -> list[float]:
    """`vine_advantages` where states may lack returns: steps between two that have them are one.

    A_i = Q̂ − b with Q̂ the value of the first sampled state after step i, or the reward, and b that
    of the last one at or before s_i, or `root`. Of V̂ = [–, –, 0.5, –] with root 0.25 and reward 1:
    [0.25, 0.25, 0.5, 0.5]. `own_return` makes Q̂ = (K · V̂ + R)/(K + 1), with K = 2 0.667 for 0.5.

    R is one more return from the state after step i, as E[R | s_i, a_i, …, s_j] = V(s_j): Q̂ stays
    unbiased. It depends on a_i: within b it would take E[∇log π(a_i) R]/(K + 1) off the gradient
    and leave K/(K + 1) of it.
    """
    before_S, before = [], root
    for state in states_S:
        before = state.mean if state.returns_K else before
        before_S.append(before)
    after_S = next_values(states_S, reward, own_return)
    return [after - before for before, after in zip(before_S, after_S, strict=True)]


def broadcast(advantages_S: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """Every step's advantage on each of its tokens.

    `broadcast([0.5, -1.0], [StepSpan(0, 2), StepSpan(2, 3)]) = [0.5, 0.5, -1.0]`.
    """
    return [
        advantage
        for advantage, span in zip(advantages_S, spans_S, strict=True)
        for _ in range(span.start, span.end)
    ]


def step_means(advantages_T: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """The mean over each step's tokens, the inverse of `broadcast` up to rounding.

    `step_means([0.5, 0.0, -1.0], [StepSpan(0, 2), StepSpan(2, 3)]) = [0.25, -1.0]`.
    """
    return [
        total / (span.end - span.start)
        for total, span in zip(step_sums(advantages_T, spans_S), spans_S, strict=True)
    ]


def step_sums(rewards_T: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """The sum over each step's tokens.

    `step_sums([0.5, 0.0, -1.0], [StepSpan(0, 2), StepSpan(2, 3)]) = [0.5, -1.0]`.
    """
    return [sum(rewards_T[span.start : span.end]) for span in spans_S]
