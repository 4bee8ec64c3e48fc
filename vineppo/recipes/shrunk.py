"""Monte-Carlo values drawn towards what is known without them, as far as their noise asks for it.

Let x_i be the mean of the K returns at state s_i and σ² the variance of one return within a state.
Let m be the mean reward of the problem's other rollouts. `toward` says what they are drawn to:

    "siblings"    V̂_i = w x_i + (1 − w) m,    w = K τ² / (K τ² + σ²)

the linear combination of least squared error: x_i has the variance σ²/K and m the squared error τ²
= E[(V(s) − m)²]. It is empirical Bayes (James and Stein 1961; Efron and Morris 1973). The other:

    "previous"    V̂_{i|i−1} = V̂_{i−1}, P_{i|i−1} = P_{i−1} + q²           (before s_0: m and τ₀²)
                  g = P_{i|i−1} / (P_{i|i−1} + σ²/K)
                  V̂_i = V̂_{i|i−1} + g (x_i − V̂_{i|i−1}),  P_i = (1 − g) P_{i|i−1}

Kalman's filter (1960) along the rollout. A value is a martingale under the policy, so its model is
a random walk with steps of variance q² = E[(V(s_{i+1}) − V(s_i))²]. Equal variances for all steps
and states are an approximation.

The variances are moments of the iteration's rollouts *of other problems*: no return of a problem
chooses a weight in it. σ² is measured on a state's K returns and the reward of its rollout. The
reward is one return more of the policy from there, so that K = 1 will do:

    τ² = mean (x − m)² − σ² mean 1/K,     τ₀² the same over the states s_0
    q² = mean (x_{i+1} − x_i)² − σ² mean (1/K_i + 1/K_{i+1}),     none below 0

A problem alone in its iteration, or others without variance, have σ² = τ² = τ₀² = q² = 1: w is
K/(K + 1).

When is the gradient unbiased? As a baseline V̂_i may stand in both modes: x_0 … x_i, m and the
weights are independent of the action at s_i given s_i. As Q̂ it is biased: its mean given s_{i+1}
is not V(s_{i+1}). `gae` with `level` "step" and γ = λ = 1 has R − V̂_i and an unbiased gradient.
`vine` has V̂_{i+1} − V̂_i and a biased one. With "siblings" and one K for all states the mean of a
step's advantage is w (V(s_{i+1}) − V(s_i)), the true one made smaller. Only the last step has the
whole of it, as its Q̂ is the reward. The advantages still sum to R − V̂_0.

Cost: none beyond what `of` samples; nothing is trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vineppo.config.require import require
from vineppo.config.schema import ReturnsReader
from vineppo.types import Rollout, StateValue, by_problem
from vineppo.values import ValuePredictor
from vineppo.values.group_mean import means_of_others


@dataclass(frozen=True)
class Variances:
    """σ², τ², τ₀² and q²; 1 where nothing is known."""

    within: float = 1.0
    states: float = 1.0
    roots: float = 1.0
    steps: float = 1.0

    @classmethod
    def of(cls, sums: np.ndarray) -> "Variances":
        """From `sums_of` of some rollouts, added up."""
        counts, squares, inverse_K = sums
        means = squares / np.maximum(counts, 1)
        noise = means[0] * inverse_K / np.maximum(counts, 1)
        found = np.maximum(means - noise, 0.0)
        return cls(*found.tolist()) if found[:2].sum() > 1e-12 else cls()


def sums_of(returns_S: Sequence[StateValue], reward: float, siblings: float) -> np.ndarray:
    """Terms of the variances, for a rollout with the siblings' mean reward `siblings`.

    [3, 4]: counts, sums of squares, and how often σ² is in these by the noise of means; a column
    each for σ², τ², τ₀² and q². States with returns (1, 0), (0, 0), reward 0 and siblings 0: counts
    (2, 2, 1, 1), squares (1/3, 1/4, 1/4, 1/4), noise (0, 1, 1/2, 1).
    """
    means_S = np.array([state.mean for state in returns_S])
    inverse_S = np.array([1 / len(state.returns_K) for state in returns_S])
    within_S = [np.var([*state.returns_K, reward], ddof=1) for state in returns_S]
    errors_S = (means_S - siblings) ** 2
    count = len(means_S)
    return np.array(
        [
            [count, count, 1, count - 1],
            [sum(within_S), errors_S.sum(), errors_S[0], (np.diff(means_S) ** 2).sum()],
            [0, inverse_S.sum(), inverse_S[0], (inverse_S[1:] + inverse_S[:-1]).sum()],
        ]
    )


def towards_siblings(
    returns_S: Sequence[StateValue], siblings: float, variances: Variances
) -> list[float]:
    """V̂ = w x + (1 − w) m.

    Variances 1, two returns of mean 1 and siblings of mean 0.25: w = 2/3 and V̂ = 0.75.
    """
    values_S = []
    for state in returns_S:
        weight = _weight(variances.states, variances.within / len(state.returns_K))
        values_S.append(siblings + weight * (state.mean - siblings))
    return values_S


def towards_previous(
    returns_S: Sequence[StateValue], siblings: float, variances: Variances
) -> list[float]:
    """The filter.

    Variances 1, siblings 0 and single returns (1,), (1,): g = 1/2 and 3/5, V̂ = 0.5 and 0.8.
    """
    values_S = []
    value, error = siblings, variances.roots
    for state in returns_S:
        gain = _weight(error, variances.within / len(state.returns_K))
        value += gain * (state.mean - value)
        error = (1 - gain) * error + variances.steps
        values_S.append(value)
    return values_S


def _weight(error: float, noise: float) -> float:
    """The weight of a mean with variance `noise` beside a value with squared error `error`."""
    return error / (error + noise) if error + noise > 0 else 1.0


TOWARD = {"siblings": towards_siblings, "previous": towards_previous}


class Shrunk(ValuePredictor):
    """A state's mean return, drawn towards the siblings' rewards or the state before."""

    is_made_of_returns = True
    takes_turns = True

    @dataclass(frozen=True)
    class Config(ReturnsReader):
        toward: Literal["siblings", "previous"] = "siblings"

        def check(self, key: str, config: Any) -> None:
            super().check(key, config)
            require(
                config.rollouts.num_samples >= 2,
                f"rollouts.num_samples must be at least 2 for {key} of kind {self.kind!r} (it "
                f"compares the rollouts of a problem), got {config.rollouts.num_samples}",
            )

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        groups_P = by_problem(rollouts)
        siblings_PG = [means_of_others(group_G) for group_G in groups_P]
        drawn = TOWARD[self.options.toward]
        sums_P = np.array(
            [
                self._sums(group_G, siblings_G)
                for group_G, siblings_G in zip(groups_P, siblings_PG, strict=True)
            ]
        )
        for p, (group_G, siblings_G) in enumerate(zip(groups_P, siblings_PG, strict=True)):
            variances = Variances.of(np.delete(sums_P, p, axis=0).sum(0))
            for rollout, siblings in zip(group_G, siblings_G, strict=True):
                returns_S = rollout.returns_S[self.options.of]
                self.set_values([rollout], [drawn(returns_S, siblings, variances)])

    def _sums(self, group_G: Sequence[Rollout], siblings_G: Sequence[float]) -> np.ndarray:
        return np.sum(
            [
                sums_of(rollout.returns_S[self.options.of], rollout.reward, siblings)
                for rollout, siblings in zip(group_G, siblings_G, strict=True)
            ],
            axis=0,
        )
