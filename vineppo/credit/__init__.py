"""Credit: from the rewards and values of a problem's rollouts to one advantage a token.

An estimator is a plug-in without state (`vineppo/plugins.py`): the frozen dataclass of its keys.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from vineppo.errors import UserError
from vineppo.plugins import Plugin, PluginConfig
from vineppo.segment import Segmenter
from vineppo.types import Rollout

if TYPE_CHECKING:
    from vineppo.config.schema.values import MonteCarloValues
    from vineppo.rollouts import PendingRollouts, Prompt, Sampler


@dataclass(frozen=True)
class Credit(PluginConfig):
    """An estimator and its keys; it says here what it reads, and what it has sampled."""

    # The predictor that feeds it where `values.credit` is null; None: it takes no values.
    fed_by: ClassVar[str | None] = None
    reads_differences: ClassVar[bool] = False  # of what feeds it, which must be a martingale then
    compares_rollouts: ClassVar[bool] = False  # of a problem, so that it needs two
    shares_tokens: ClassVar[bool] = False  # a problem's rollouts have sampled tokens in common
    samples_greedy: ClassVar[bool] = False  # each problem's `rollout.greedy_reward`

    segmenter: Annotated[Segmenter, Plugin("segmenter")]

    @property
    def monte_carlo(self) -> "MonteCarloValues | None":
        """The continuations that are sampled for it; None: no values by them."""
        return None

    @property
    def reads(self) -> Literal["steps", "tokens"]:
        """It takes the values of the states before steps, or before tokens."""
        return "steps"

    @property
    def bootstraps(self) -> bool:
        """It takes the value of the state after a truncated response."""
        return False

    def advantages(self, rollouts_G: Sequence[Rollout]) -> Sequence[Sequence[float]]:
        """One advantage a response token for every rollout of a problem; a pure function."""
        raise NotImplementedError

    def returns(self, rollout: Rollout) -> list[float]:
        """The actual reward to go of every token, as values predict it; no value enters."""
        return reward_to_go(rollout.rewards_T, [1.0] * len(rollout.rewards_T))

    def critic_targets(self, rollout: Rollout, predictor: str) -> list[float]:  # noqa: ARG002
        """What the critic `predictor` learns, one target a token."""
        return self.returns(rollout)

    def submit(
        self,
        sampler: "Sampler",  # noqa: ARG002
        prompts_P: Sequence["Prompt"],  # noqa: ARG002
        stream: tuple[int | str, ...],  # noqa: ARG002
        done: Callable[[Rollout], None],  # noqa: ARG002
    ) -> "PendingRollouts | None":
        """Queues rollouts that are not independent samples; None: they are.

        As `vineppo.rollouts.submit_rollouts`, of `rollouts.num_samples` rollouts a problem.
        """
        return None

    def sampled_tokens(self, rollout: Rollout) -> Sequence[bool]:
        """Which tokens were sampled for this rollout; an environment's never were."""
        return rollout.is_action_T

    def trained_tokens(self, rollout: Rollout) -> Sequence[bool]:
        """Which tokens train, of a rollout that has its advantages."""
        return rollout.is_action_T


def token_advantages(credit: Credit, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """One advantage a response token for every rollout of a problem, by the estimator `credit`.

    Raises `UserError` if the numbers of rollouts or tokens differ, or if a user's estimator returns
    a number that is not finite. The update skips such numbers of the core's estimators.
    """
    found_G = credit.advantages(rollouts_G)
    must = f"credit.kind {credit.kind!r}: advantages must return"
    if len(found_G) != len(rollouts_G):
        raise UserError(f"{must} a list a rollout, {len(rollouts_G)}, got {len(found_G)}")
    for index, (found_T, rollout) in enumerate(zip(found_G, rollouts_G, strict=True)):
        if len(found_T) != len(rollout.rewards_T):
            raise UserError(
                f"{must} a number a token, {len(rollout.rewards_T)} for rollout {index}, got "
                f"{len(found_T)}"
            )
        for token, advantage in enumerate(found_T):
            if ":" in credit.kind and not math.isfinite(advantage):
                raise UserError(
                    f"{must} finite numbers, got {advantage} for token {token} of rollout {index}"
                )
    return [[float(advantage) for advantage in found_T] for found_T in found_G]


def reward_to_go(rewards_T: Sequence[float], gammas_T: Sequence[float]) -> list[float]:
    """G_t = r_t + γ_t G_{t+1}. Rewards [−0.1, 0, 1], γ = 0.5 → [0.15, 0.5, 1]."""
    returns_T: list[float] = []
    following = 0.0
    for reward, gamma in reversed(list(zip(rewards_T, gammas_T, strict=True))):
        following = reward + gamma * following
        returns_T.append(following)
    return returns_T[::-1]
