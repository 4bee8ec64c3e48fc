"""A problem's mean reward, drawn towards that of the other problems: a shrinkage baseline.

Let m be the mean reward of the problem's n − 1 other rollouts. Let c be the mean over P other
problems, the iteration's and those of the `replay_iterations` before it, of their mean rewards:

    V(s) = m + λ (c − m),    λ = a/(a + b)       at every state of the rollout
    a = σ²/(n − 1),  b = τ² + s²/P               the squared errors of m and of c

the linear combination of least squared error (James and Stein 1961). Zeng et al. 2025
(arXiv:2511.03710) use it for baselines, without replay. All three variances are moments of the
*other problems*' rewards. σ² is the mean of their sample variances and s² the sample variance of
their means. τ² = max(0, s² − mean σ²/n) is how far problems differ. A few problems' moments are so
poor that λ may do harm: with fewer than 12 others V = m. Little of m's squared error is left where
problems are alike. Most is left where their chances of success are spread from 0 to 1, and all
where each is nearly always or never solved (`tests/recipes/test_shrunk_mean.py` simulates it).

As a baseline it leaves the gradient unbiased: m is of the problem's other rollouts, c and λ are of
other problems and of earlier iterations. RLOO's m costs n/(n − 1) of the noise that the problem's
true mean would leave; this gives a part of it back at no cost.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from vineppo.config.schema import CountOrZero, PredictorConfig
from vineppo.types import Rollout, by_problem
from vineppo.values.group_mean import GroupMean, means_of_others

MIN_OTHERS = 12  # problems
Rewards = list[list[float]]  # of an iteration's rollouts, by problem


def shrinkage(rewards_PG: Sequence[Sequence[float]], first: int = 0) -> tuple[Any, Any]:
    """λ and c of the problems from `first` on, each by the rewards of all others, [P − first].

    Rewards [1, 0], the others being [1, 0], [1, 1] and [0, 0]: σ² = 1/6, c = 1/2, s² = 1/4,
    τ² = 1/4 − 1/12, b = 1/6 + 1/12 and a = 1/6, so that λ = 2/5. A lone rollout has λ = 1.
    """
    counts_P = np.array([len(rewards_G) for rewards_G in rewards_PG], float)
    means_P = np.array([np.mean(rewards_G) for rewards_G in rewards_PG])
    within_P = np.array([np.var(r, ddof=1) if len(r) > 1 else 0.0 for r in rewards_PG])
    num_others = max(len(rewards_PG) - 1, 1)

    def of_others(numbers_P: Any) -> Any:
        return (numbers_P.sum() - numbers_P[first:]) / num_others

    middle = means_P.mean()  # so that little is lost in the difference of squares
    centres_P = of_others(means_P - middle)
    spread_P = of_others((means_P - middle) ** 2) - centres_P**2
    spread_P = np.maximum(spread_P, 0.0) * num_others / max(num_others - 1, 1)
    of_centre_P = np.maximum(spread_P - of_others(within_P / counts_P), 0) + spread_P / num_others
    of_mean_P = of_others(within_P) / np.maximum(counts_P[first:] - 1, 1)
    weights_P = of_mean_P / np.maximum(of_mean_P + of_centre_P, 1e-12)
    return np.where(counts_P[first:] > 1, weights_P, 1.0), middle + centres_P


class ShrunkMean(GroupMean):
    """The mean reward of a problem's other rollouts, shrunk to the other problems' mean."""

    @dataclass(frozen=True)
    class Config(PredictorConfig):
        replay_iterations: CountOrZero = 10  # earlier ones, whose problems count as well

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._earlier: deque[Rewards] = deque(maxlen=self.options.replay_iterations)

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        earlier_PG = [*chain.from_iterable(self._earlier)]
        groups = by_problem(rollouts)
        weights_P, centres_P = shrinkage([*earlier_PG, *rewards_of(rollouts)], len(earlier_PG))
        is_known = len(earlier_PG) + len(groups) > MIN_OTHERS
        for group_G, weight, centre in zip(groups, weights_P, centres_P, strict=True):
            means_G = means_of_others(group_G)
            if is_known:
                means_G = [float(mean + weight * (centre - mean)) for mean in means_G]
            self.set_by_rollout(group_G, means_G)

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        self._earlier.append(rewards_of(rollouts))
        return {}

    def state(self) -> dict[str, Any]:
        return {"rewards": [*self._earlier]}

    def set_state(self, state: dict[str, Any]) -> None:
        self._earlier.extend(state["rewards"])


def rewards_of(rollouts: Sequence[Rollout]) -> Rewards:
    return [[rollout.reward for rollout in group_G] for group_G in by_problem(rollouts)]
