"""A problem's mean reward, drawn towards that of the other problems: a shrinkage baseline.

With m the mean reward of the problem's n − 1 other rollouts and c the mean over P other problems,
the iteration's and those of the `replay_iterations` before it, of their mean rewards:

    V(s) = m + λ (c − m),    λ = a/(a + b)       at every state of the rollout
    a = σ²/(n − 1),  b = τ² + s²/P               the squared errors of m and of c

the linear combination of least squared error (James and Stein 1961; for baselines Zeng et al. 2025,
arXiv:2511.03710, which has no replay). All three variances are moments of the *other problems*'
rewards: σ² the mean of their sample variances, s² the sample variance of their means,
τ² = max(0, s² − mean σ²/n), which is how far problems differ. Of three other problems of four
rollouts these moments are so poor that λ may do harm; of thirty V has half of m's squared error.

As a baseline it leaves the gradient unbiased: m is of the problem's other rollouts, c and λ are of
other problems and of earlier iterations. RLOO's m costs n/(n − 1) of the noise that the problem's
true mean would leave; this gives a part of it back, for nothing. Without two others V = m.
"""

import json
from collections import deque
from collections.abc import Sequence
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean, variance

from vineppo.config.schema import ShrunkMeanValues, TrainConfig
from vineppo.distributed import is_main
from vineppo.types import Rollout
from vineppo.values.group_mean import GroupMean, means_of_others

REWARDS = "rewards.json"
Rewards = list[list[float]]  # of an iteration's rollouts, by problem


def shrinkage(rewards_PG: Sequence[Sequence[float]], num_others: int) -> tuple[float, float]:
    """λ of a mean of `num_others` rewards, and c, by the rewards of other problems.

    [1, 0], [1, 1] and [0, 0]: σ² = 1/6, c = 1/2, s² = 1/4, τ² = 1/4 − 1/12 and b = 1/6 + 1/12; a
    single other reward has a = 1/6, so that λ = 2/5; of none λ = 1.
    """
    means_P = [fmean(rewards_G) for rewards_G in rewards_PG]
    if len(means_P) < 2:
        return 0.0, 0.0
    if num_others == 0:
        return 1.0, fmean(means_P)
    within_P = [variance(r) if len(r) > 1 else 0.0 for r in rewards_PG]
    noise = fmean(v / len(r) for v, r in zip(within_P, rewards_PG, strict=True))
    spread = variance(means_P)
    error_of_mean = fmean(within_P) / num_others
    error_of_centre = max(spread - noise, 0.0) + spread / len(means_P)
    total = error_of_mean + error_of_centre
    return error_of_mean / total if total > 0 else 0.0, fmean(means_P)


class ShrunkMean(GroupMean):
    """The mean reward of a problem's other rollouts, shrunk to that of the other problems."""

    def __init__(self, name: str, config: TrainConfig, own: ShrunkMeanValues, *_: object) -> None:
        super().__init__(name, config)
        self._earlier: deque[Rewards] = deque(maxlen=own.replay_iterations)

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        earlier_PG = [*chain.from_iterable(self._earlier)]
        groups = [list(g) for _, g in groupby(rollouts, key=lambda rollout: rollout.problem.id)]
        rewards_PG = rewards_of(rollouts)
        for p, group_G in enumerate(groups):
            others_PG = earlier_PG + rewards_PG[:p] + rewards_PG[p + 1 :]
            weight, centre = shrinkage(others_PG, len(group_G) - 1)
            for rollout, mean in zip(group_G, means_of_others(group_G), strict=True):
                value = mean + weight * (centre - mean)
                self.set_values([rollout], [[value] * len(rollout.spans_S)])

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:  # noqa: ARG002
        self._earlier.append(rewards_of(rollouts))
        return {}

    def save_state(self, directory: Path) -> None:
        if is_main():
            directory.mkdir(parents=True, exist_ok=True)
            (directory / REWARDS).write_text(json.dumps([*self._earlier]))

    def load_state(self, directory: Path) -> None:
        self._earlier.extend(json.loads((directory / REWARDS).read_text()))


def rewards_of(rollouts: Sequence[Rollout]) -> Rewards:
    groups = groupby(rollouts, key=lambda rollout: rollout.problem.id)
    return [[rollout.reward for rollout in group] for _, group in groups]
