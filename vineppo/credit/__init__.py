"""Credit: from the rewards and values of a problem's rollouts to one advantage a token."""

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
    """An estimator: a plug-in without state, the frozen dataclass of its keys."""

    # The predictor that feeds it if `values.credit` is null; None: it takes no values.
    fed_by: ClassVar[str | None] = None
    reads_differences: ClassVar[bool] = False  # of its predictor, which must be a martingale
    compares_rollouts: ClassVar[bool] = False  # needs two rollouts a problem
    shares_tokens: ClassVar[bool] = False  # a problem's rollouts have sampled tokens in common
    samples_greedy: ClassVar[bool] = False  # reads `rollout.greedy_reward`
    bootstraps: ClassVar[bool] = False  # reads the value of the state after a truncated response
    differences_values: ClassVar[bool] = False  # as its advantages: unbiased where the values are
    rescales: ClassVar[bool] = False  # its mean gradient is a multiple of the true one

    segmenter: Annotated[Segmenter, Plugin("segmenter")]

    @property
    def monte_carlo(self) -> "MonteCarloValues | None":
        """The continuations that are sampled for it, if any."""
        return None

    @property
    def reads(self) -> Literal["steps", "tokens"]:
        """It takes values of the states before steps, or before tokens."""
        return "steps"

    def advantages(self, rollouts_G: Sequence[Rollout]) -> Sequence[Sequence[float]]:
        """One advantage a response token for every rollout of a problem; pure."""
        raise NotImplementedError

    def returns(self, rollout: Rollout) -> list[float]:
        """The reward to go of every token, which values predict; no value enters."""
        return reward_to_go(rollout.rewards_T, [1.0] * len(rollout.rewards_T))

    def critic_targets(self, rollout: Rollout, predictor: str) -> list[float]:  # noqa: ARG002
        """The targets of the critic `predictor`, one a token."""
        return self.returns(rollout)

    def submit(
        self,
        sampler: "Sampler",  # noqa: ARG002
        prompts_P: Sequence["Prompt"],  # noqa: ARG002
        stream: tuple[int | str, ...],  # noqa: ARG002
        done: Callable[[Rollout], None],  # noqa: ARG002
    ) -> "PendingRollouts | None":
        """Queues rollouts that are not independent, as `rollouts.submit_rollouts` does others."""
        return None

    def sampled_tokens(self, rollout: Rollout) -> Sequence[bool]:
        """The tokens that were sampled for this rollout; an environment's never were."""
        return rollout.is_action_T

    def trained_tokens(self, rollout: Rollout) -> Sequence[bool]:
        """The tokens that train, of a rollout with its advantages."""
        return rollout.is_action_T


def token_advantages(credit: Credit, rollouts_G: Sequence[Rollout]) -> list[list[float]]:
    """`credit.advantages`, checked: raises `UserError` for wrong numbers of rollouts or tokens.

    A user's estimator must also return finite numbers. The update skips others of the core's.
    """
    found_G = [list(map(float, found_T)) for found_T in credit.advantages(rollouts_G)]
    must = f"credit.kind {credit.kind!r}: advantages must return"
    if len(found_G) != len(rollouts_G):
        raise UserError(f"{must} a list a rollout, {len(rollouts_G)}, got {len(found_G)}")
    for index, (found_T, rollout) in enumerate(zip(found_G, rollouts_G, strict=True)):
        if len(found_T) != (num_tokens := len(rollout.rewards_T)):
            found = f"{num_tokens} for rollout {index}, got {len(found_T)}"
            raise UserError(f"{must} a number a token, {found}")
        for token, number in enumerate(found_T if ":" in credit.kind else ()):
            if not math.isfinite(number):
                found = f"{number} for token {token} of rollout {index}"
                raise UserError(f"{must} finite numbers, got {found}")
    return found_G


def reward_to_go(rewards_T: Sequence[float], gammas_T: Sequence[float]) -> list[float]:
    """G_t = r_t + γ_t G_{t+1}. Rewards [−0.1, 0, 1], γ = 0.5 → [0.15, 0.5, 1]."""
    returns_T: list[float] = []
    following = 0.0
    for reward, gamma in reversed(list(zip(rewards_T, gammas_T, strict=True))):
        following = reward + gamma * following
        returns_T.append(following)
    return returns_T[::-1]
