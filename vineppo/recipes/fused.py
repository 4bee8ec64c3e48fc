"""A prior fused with few rewards by their evidence, as a prompt's value: V0.5 (arXiv:2603.10848).

Let v be another predictor's value of the state s_0, and m the mean reward of the problem's n other
rollouts. If v were right, m would have the variance ν = v (1 − v)/n:

    V(s) = v + max(0, 1 − ν/(m − v)²) (m − v)       at every state of the rollout

after the form of James and Stein's positive-part estimator (1961). Rewards within what chance
allows leave the prior as it is; those that contradict it, because there are many or they are far
off, take over. The paper's own test and its allocation of further rollouts where prior and rewards
disagree are not here: every problem has as many rollouts.

As a baseline it is fair: v is of the prompt, and m and the weight are of the others alone. It is
blind to the step, and as Q̂ biased. Cost: the prior's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema import Name, PredictorConfig
from vineppo.types import Rollout, by_problem
from vineppo.values.group_mean import GroupMean, means_of_others


def fused(prior: float, mean: float, num_rewards: int) -> float:
    """Prior 0.5 and three rewards: of mean 2/3 they leave it, of mean 1 they make 0.833."""
    prior = min(max(prior, 0.0), 1.0)
    noise, distance = prior * (1 - prior) / max(num_rewards, 1), mean - prior
    if num_rewards == 0 or distance**2 <= noise:
        return prior
    return prior + (1 - noise / distance**2) * distance


class Fused(GroupMean):
    """It reads another predictor's values, which must be there."""

    is_probability = True
    takes_turns = False

    @dataclass(frozen=True)
    class Config(PredictorConfig):
        prior: Name  # the other predictor: "critic" is the estimator's

        @property
        def values_of(self) -> str:
            return self.prior

        def check(self, key: str, config: Any) -> None:
            prior = config.predictors.get(self.prior)
            # Sampled values come without a pass, in training alone.
            is_read = prior and not (prior.predictor.is_sampled or prior.values_of)
            require(
                bool(is_read),
                f"{key}.prior must be another predictor of the run, and none that samples, got "
                f"{self.prior}",
            )

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        prior = self.options.prior
        for group_G in by_problem(rollouts):
            means_G = zip(group_G, means_of_others(group_G), strict=True)
            num_others = len(group_G) - 1
            self.set_by_rollout(
                group_G, [fused(one.values_S(prior)[0], mean, num_others) for one, mean in means_G]
            )
