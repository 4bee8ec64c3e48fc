"""Which step boundaries of a rollout continuations are sampled from, where it is not all.

A choice sees what was sampled and never a return. With "coin" and "expected", the prefix of the
boundary before step j decides alone whether it cuts. The others also see what comes after: how many
steps there are, or how surprising they are. Where that says something of the reward, so does a cut,
and E[R | s_j, a cut] is not V(s_j). The others' advantages between cuts are then biased; the two
stay unbiased.

"expected" samples a state in proportion to the most that its step can have changed. With
π(a) = Π π(a_t | s_t) of the step a before s_j, and V' the mean value after any other one,

    V(s_{j−1}) = π(a) V(s_j) + (1 − π(a)) V'
    V(s_j) − V(s_{j−1}) = (1 − π(a)) (V(s_j) − V'),    at most 1 − π(a) = g_j for rewards in [0, 1]
    p_j = min(1, max(floor, c g_j)),    a cut where u + p_1 + … + p_j passes a whole number

so that P(cut before step j) = p_j with u uniform in [0, 1), one draw a rollout: cuts lie as evenly
as the gain allows (systematic sampling, Madow 1949). With `by` "entropy" g_j is Σ H(π(· | s_t)) of
the step's tokens: a fork is cut whichever way it was taken.

c is such that the boundaries of the iteration before would have had the mean `probability`. Given
the policy it is a constant, and g_j looks at tokens of the prefix alone. So the next cut after a
step is a stopping time, and the mean of V there is Q (optional stopping). The engine's
log-probabilities are used, as states are sampled before the trainer's pass; entropies take a
separate pass (`RolloutPass`). Neither can tell a choice that matters from a choice of words.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import Any, Literal

import numpy as np

from vineppo.config.require import require
from vineppo.config.schema import Count, PositiveFraction, Share, States
from vineppo.credit.vine import step_sums
from vineppo.types import Rollout


@dataclass(frozen=True)
class Cuts(States):
    """At most `cuts` step boundaries of each rollout, chosen once it has ended, by `kind`:

        random      M of them, all alike
        uncertain   after the M steps with the lowest probability of their least likely token
        surprisal   the nearest to m/(M + 1) of −Σ log p over the response, m = 1 … M

    Steps of one token with log p = −1, −3, −1, −1, M = 1: "uncertain" cuts after the second, before
    step 2; "surprisal" would best cut 3 nats in, and takes step 2, 4 nats in.
    """

    cuts: Count

    def expected(self, num_boundaries: float) -> float:
        return min(self.cuts, num_boundaries)

    def chosen(self, rollout: Rollout, seed: int, scale: float | None = None) -> Collection[int]:  # noqa: ARG002
        boundaries = range(1, len(rollout.spans_S))
        most = min(self.cuts, len(boundaries))
        logprobs_S = [rollout.logprobs_T[span.start : span.end] for span in rollout.spans_S]
        if self.kind == "random":
            return Random(seed).sample(boundaries, most)
        if self.kind == "uncertain":
            return sorted(boundaries, key=lambda step: min(logprobs_S[step - 1]))[:most]
        behind_S = [0.0, *accumulate(-math.fsum(logprobs) for logprobs in logprobs_S)]
        ideals = [behind_S[-1] * m / (self.cuts + 1) for m in range(1, self.cuts + 1)]
        return {
            min(boundaries, key=lambda step: abs(behind_S[step] - ideal))
            for ideal in ideals
            if boundaries
        }


@dataclass(frozen=True)
class CoinCuts(States):
    """Every step boundary with this probability, each by itself."""

    is_by_prefix = True

    probability: PositiveFraction

    def expected(self, num_boundaries: float) -> float:
        return self.probability * num_boundaries

    def chosen(self, rollout: Rollout, seed: int, scale: float | None = None) -> Collection[int]:  # noqa: ARG002
        stream = Random(seed)
        boundaries = range(1, len(rollout.spans_S))
        return [step for step in boundaries if stream.random() < self.probability]


@dataclass(frozen=True)
class ExpectedCuts(States):
    """Every step boundary, the more often the less sure the step before it was.

    With `probability` on average and at least `floor`.
    """

    is_by_prefix = True

    # The probability of the step taken, or the policy's entropy before its tokens.
    by: Literal["probability", "entropy"] = "probability"
    probability: PositiveFraction = 0.1
    floor: Share = 0.01

    def check(self, key: str, config: Any) -> None:  # noqa: ARG002
        require(
            self.floor <= self.probability,
            f"{key}.floor must be at most {key}.probability = {self.probability}, got {self.floor}",
        )

    @property
    def reads_entropies(self) -> bool:  # type: ignore[override]
        return self.by == "entropy"

    def expected(self, num_boundaries: float) -> float:
        return self.probability * num_boundaries

    def chosen(self, rollout: Rollout, seed: int, scale: float | None = None) -> Collection[int]:
        return even_cuts(self.chances(rollout, scale), Random(seed).random())

    def chances(self, rollout: Rollout, scale: float | None) -> list[float]:
        """The probabilities of a cut before steps 1 … S − 1; `scale` None: all alike."""
        if scale is None:
            return [self.probability] * (len(rollout.spans_S) - 1)
        return self._scaled(np.array(gains_of(rollout, self.by)), scale)

    def next_scale(self, rollouts: Sequence[Rollout]) -> float | None:
        """c that gives the boundaries of the rollouts the mean probability; None without any.

        At most 10⁶: where no step was in doubt, no c is large enough.
        """
        gains_N = np.array([gain for one in rollouts for gain in gains_of(one, self.by)])
        if not len(gains_N):
            return None
        low, high = 0.0, 1e6
        for _ in range(100):
            middle = (low + high) / 2
            mean = math.fsum(self._scaled(gains_N, middle)) / len(gains_N)
            low, high = (middle, high) if mean < self.probability else (low, middle)
        return high

    def mean_chance(self, rollouts: Sequence[Rollout], scale: float | None) -> float | None:
        chances = [chance for one in rollouts for chance in self.chances(one, scale)]
        return math.fsum(chances) / len(chances) if chances else None

    def _scaled(self, gains_N: np.ndarray, scale: float) -> list[float]:
        chances_N: list[float] = np.minimum(1.0, np.maximum(self.floor, scale * gains_N)).tolist()
        return chances_N


def gains_of(rollout: Rollout, by: Literal["probability", "entropy"]) -> list[float]:
    """1 − π(step before the boundary), or its entropy, for the boundaries 1 … S − 1.

    Steps of 2 and 1 tokens with probabilities 1/2, 1/2, 1/4: [3/4].
    """
    if by == "entropy":
        return step_sums(rollout.tokens_T["entropies"], rollout.spans_S)[:-1]
    logprobs_S = step_sums(rollout.logprobs_T, rollout.spans_S)
    return [-math.expm1(min(0.0, logprob)) for logprob in logprobs_S[:-1]]


def even_cuts(chances: Sequence[float], phase: float) -> list[int]:
    """The steps from 1 on where `phase` and their chances come to the next whole number.

    Chances 0.5, 0.25, 0.5 and a phase of 0.4: after 0.9, 1.15 and 1.65, [2].
    """
    behind = accumulate(chances, initial=phase)
    return [step for step, (a, b) in enumerate(pairwise(behind), start=1) if a // 1 < b // 1]
