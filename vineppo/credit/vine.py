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
    """An estimator that takes the returns of continuations from step boundaries."""

    fed_by = MONTE_CARLO

    num_continuations: CountOrZero  # 0: `values.credit` names another predictor
    identical_prefixes: IdenticalPrefixes = "share"
    states: StatesConfig | None = None  # the boundaries; null: all

    @property
    def monte_carlo(self) -> MonteCarloValues | None:
        keys = self.num_continuations, self.identical_prefixes, self.states
        return MonteCarloValues("monte_carlo", *keys) if self.num_continuations else None

    def check(self, key: str, config: Any) -> None:
        require(
            self.num_continuations > 0 or config.values.credit is not None,
            f"{key}.num_continuations must be at least 1 where values.credit is null, got 0",
        )


@dataclass(frozen=True)
class VineCredit(ContinuationCredit):
    """VinePPO: differences of the values of states (arXiv:2410.01679, section 4)."""

    differences_values = True

    own_return: bool = False  # the rollout's return joins those of the state after a step

    def check(self, key: str, config: Any) -> None:
        super().check(key, config)
        sampled = config.continuations.get(config.values.credit or MONTE_CARLO)
        require(
            sampled is None or sampled.states is None or config.rollouts.num_samples >= 2,
            "rollouts.num_samples must be at least 2 for values of some states, got 1",
        )

    def advantages(self, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
        """Values [0.5, 0.25] before steps of 2 and 1 tokens, reward 1 → [−0.25, −0.25, 0.75].

        A KL penalty in `rewards_T` enters the last difference only, because V̂ holds none of it.
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

    γ is 1 as in the paper. The advantages sum to reward − values_S[0]. Values [0.5, 0.25] and
    reward 1 → [−0.25, 0.75].
    """
    after_S = [*values_S[1:], reward]
    return [after - before for before, after in zip(values_S, after_S, strict=True)]


def next_values(
    states_S: Sequence[StateValue], reward: float, own_return: bool = False
) -> list[float]:
    """For each step the value of the first sampled state after it, or the reward R.

    V̂ = [–, –, 0.5, –] gives [0.5, 0.5, R, R]. `own_return` joins R to that state's K returns.
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
    """`vine_advantages` if states may lack returns: steps between two sampled states are one.

    A_i = Q̂ − b. Q̂ is the value of the first sampled state after step i, or the reward; b is the
    value of the last one at or before s_i, or `root`. V̂ = [–, –, 0.5, –], root 0.25 and reward 1
    give [0.25, 0.25, 0.5, 0.5]. `own_return` makes Q̂ = (K · V̂ + R)/(K + 1), which is unbiased: R
    is one more return from that state. Within b, R would shrink the gradient to K/(K + 1).
    """
    before_S, before = [], root
    for state in states_S:
        before = state.mean if state.returns_K else before
        before_S.append(before)
    after_S = next_values(states_S, reward, own_return)
    return [after - before for before, after in zip(before_S, after_S, strict=True)]


def broadcast(advantages_S: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """Each step's advantage on its tokens: [0.5, −1], spans (0, 2) and (2, 3) → [0.5, 0.5, −1]."""
    pairs = zip(advantages_S, spans_S, strict=True)
    return [advantage for advantage, span in pairs for _ in range(span.start, span.end)]


def step_means(advantages_T: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """The mean over each step's tokens: [0.5, 0, −1] and spans (0, 2), (2, 3) → [0.25, −1]."""
    pairs = zip(step_sums(advantages_T, spans_S), spans_S, strict=True)
    return [total / (span.end - span.start) for total, span in pairs]


def step_sums(rewards_T: Sequence[float], spans_S: Sequence[StepSpan]) -> list[float]:
    """The sum over each step's tokens: [0.5, 0, −1] and spans (0, 2), (2, 3) → [0.5, −1]."""
    return [sum(rewards_T[span.start : span.end]) for span in spans_S]
