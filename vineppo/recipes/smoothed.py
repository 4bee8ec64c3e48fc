"""Values along a rollout as a level that jumps now and then, inferred from all its returns.

A hidden Markov model (Rabiner 1989; change points as in Barry and Hartigan 1993). The value before
step i is a level θ_i of a grid on [0, 1], with the prior ρ = Beta(1/2, 1/2) of the cells around the
levels. At each step it stays with probability 1 − c and is drawn from ρ anew with probability c
(`change`). The n_i returns at s_i are tosses of θ_i, a return in [0, 1] counting in parts:

    L_i(θ) = θ^Σr (1 − θ)^(n_i − Σr)
    α_i ∝ L_i · ((1 − c) α_{i−1} + c ρ),   α_0 ∝ L_0 · ρ                                  (forward)
    β_i = (1 − c) L_{i+1} β_{i+1} + c Σ_θ ρ L_{i+1} β_{i+1},   β_{S−1} = 1                (backward)

    `direction` "causal"  V̂_i = E[θ_i | returns at s_0 … s_i]     = Σ_θ θ α_i / Σ_θ α_i
    `direction` "both"    V̂_i = E[θ_i | returns at s_0 … s_{S−1}] = Σ_θ θ α_i β_i / Σ_θ α_i β_i

A few steps decide and the others change nothing: then neighbouring states have one value, and the K
returns of each tell of all. The model is not quite right: a value is a martingale, but a draw from
ρ is not, nor is any one c. So its values have a bias, for less variance.

When is the gradient unbiased? In A_i = Q̂(s_i, a_i) − b(s_i), b must not depend on a_i given s_i,
and Q̂ must have the mean Q(s_i, a_i) given both.

- V̂_i "causal" may be b: continuations of s_0 … s_i are independent of a_i given s_i.
- V̂_i "both" as b has a bias: the returns at s_{i+1} follow from a_i, and where b has them it takes
  away some of what the action gained.
- V̂_{i+1} of either is no unbiased Q̂: it draws V(s_{i+1}) towards values before (and after) it.

So `gae` with `level` "step" and γ = λ = 1, with the reward as Q̂, has an unbiased gradient on
"causal" values. `vine` takes a value in both roles and has a biased one on either.

Cost: none beyond what `of` samples; nothing is trained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vineppo.config.schema import ReturnsReader, Share
from vineppo.types import Rollout, StateValue
from vineppo.values import ValuePredictor

LEVELS = np.linspace(0.0, 1.0, 21)
# Mass of Beta(1/2, 1/2) in the cells. Its distribution function is 2/π · arcsin √x.
_EDGES = np.array([0.0, *(LEVELS[1:] + LEVELS[:-1]) / 2, 1.0])
PRIOR = np.diff(np.arcsin(np.sqrt(_EDGES))) * 2 / math.pi
# 0 and 1 stand for never and always: a single return to the contrary rules them out.
_LOG_RIGHT, _LOG_WRONG = (np.log(np.maximum(p, 1e-300)) for p in (LEVELS, 1 - LEVELS))


def likelihoods(returns_S: Sequence[StateValue]) -> np.ndarray:
    """L of every state and level, up to a factor a state: [S, levels]."""
    right_S1 = np.array([[sum(state.returns_K)] for state in returns_S])
    wrong_S1 = np.array([[len(state.returns_K)] for state in returns_S]) - right_S1
    logs_SL = right_S1 * _LOG_RIGHT + wrong_S1 * _LOG_WRONG
    likelihoods_SL: np.ndarray = np.exp(logs_SL - logs_SL.max(1, keepdims=True))
    return likelihoods_SL


def smoothed(returns_S: Sequence[StateValue], change: float, is_causal: bool) -> list[float]:
    """V̂ of the states of one rollout.

    A single return of 1 under Beta(1/2, 1/2) has the mean E[θ²]/E[θ] = 3/4, on the grid 0.752.
    """
    likelihoods_SL = likelihoods(returns_S)
    forward_SL = np.empty_like(likelihoods_SL)
    expected_L = PRIOR
    for i, likelihood_L in enumerate(likelihoods_SL):
        forward_SL[i] = _normalised(likelihood_L * expected_L)
        expected_L = (1 - change) * forward_SL[i] + change * PRIOR
    backward_SL = np.ones_like(likelihoods_SL)
    if not is_causal:
        for i in range(len(returns_S) - 1, 0, -1):
            later_L = likelihoods_SL[i] * backward_SL[i]
            backward_SL[i - 1] = _normalised((1 - change) * later_L + change * PRIOR @ later_L)
    posterior_SL = forward_SL * backward_SL
    values_S: list[float] = (posterior_SL @ LEVELS / posterior_SL.sum(1)).tolist()
    return values_S


def _normalised(weights_L: np.ndarray) -> np.ndarray:
    normalised_L: np.ndarray = weights_L / weights_L.sum()
    return normalised_L


class Smoothed(ValuePredictor):
    """The mean level of each state, given the returns before it or all of its rollout."""

    is_made_of_returns = True
    is_probability = True

    @dataclass(frozen=True)
    class Config(ReturnsReader):
        change: Share = 0.2  # the probability that a step changes the value
        # A value looks at the states up to its own, or at later ones too.
        direction: Literal["causal", "both"] = "causal"

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        options = self.options
        is_causal = options.direction == "causal"
        values = [
            smoothed(one.returns_S[options.of], options.change, is_causal) for one in rollouts
        ]
        self.set_values(rollouts, values)
