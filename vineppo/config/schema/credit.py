"""Steps, and the estimators of their credit."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from vineppo.config.schema.scalars import (
    Count,
    CountOrZero,
    Fraction,
    Name,
    NonNegative,
    Positive,
    PositiveFraction,
)
from vineppo.config.schema.values import (
    IdenticalPrefixes,
    MonteCarloValues,
    StatesConfig,
)
from vineppo.plugins import Plugin, find
from vineppo.segment import Segmenter

SegmenterConfig = Annotated[Segmenter, Plugin("segmenter")]


class Credit:
    """What every estimator's config says of the values that it takes."""

    own_values: ClassVar[str | None] = None  # the predictor that feeds it unless another is named

    @property
    def monte_carlo(self) -> MonteCarloValues | None:
        """The continuations that it asks for; None where it takes no Monte-Carlo values."""
        return None


@dataclass(frozen=True)
class VineCredit(Credit):
    """VinePPO: values by `num_continuations` fresh continuations from step boundaries.

    0 where `values.credit` names a predictor that stands in for them. `states` says from which
    boundaries; with `own_return` the rollout's own return joins those of the state after a step.
    """

    own_values: ClassVar[str | None] = "monte_carlo"

    kind: Literal["vine"]
    num_continuations: CountOrZero
    segmenter: SegmenterConfig
    identical_prefixes: IdenticalPrefixes
    states: StatesConfig | None
    own_return: bool

    @property
    def monte_carlo(self) -> MonteCarloValues | None:
        if not self.num_continuations:
            return None
        return MonteCarloValues(
            "monte_carlo", self.num_continuations, self.identical_prefixes, self.states
        )


@dataclass(frozen=True)
class GaeCredit(Credit):
    """PPO: generalised advantage estimation over a critic's values (`vineppo/credit/gae.py`)."""

    own_values: ClassVar[str | None] = "critic"

    kind: Literal["gae"]
    segmenter: SegmenterConfig
    gamma: Fraction  # per token, or per step for level "step"
    # λ of the policy's advantages: a number, or null with `length_adaptive_alpha` in its place.
    policy_lambda: Fraction | None
    length_adaptive_alpha: Positive | None  # λ = 1 − 1/(alpha · response length), in [0, 1)
    critic_lambda: Fraction  # λ of the critic's targets, always over tokens
    level: Literal["token", "step"]  # "step": one advantage a step, values at step boundaries only
    # λ only before tokens sampled with less than this probability, 1 elsewhere; null: everywhere.
    segment_max_prob: Fraction | None
    bootstrap_truncated: bool  # a response cut off by the budget goes on with the value of its end


@dataclass(frozen=True)
class GrpoCredit(Credit):
    """Reward minus the mean of the problem's rollouts, divided by their deviation or not."""

    kind: Literal["grpo"]
    segmenter: SegmenterConfig
    normalize_std: bool


@dataclass(frozen=True)
class GigpoCredit(Credit):
    """GiGPO: relative to the problem's rollouts, and to their turns from the same state.

    See `vineppo/credit/gigpo.py`. A return of a turn is Σ_k γ^k r of the turns from it on.
    """

    kind: Literal["gigpo"]
    segmenter: SegmenterConfig
    gamma: Fraction  # per turn
    step_weight: NonNegative  # of the turns' part beside the rollouts'
    baseline: Literal["mean", "others"]  # of all that are compared, or of the other rollouts'
    normalize_std: bool  # by the deviation of what is compared


@dataclass(frozen=True)
class TreeCredit(Credit):
    """SPO-tree: the G rollouts of a problem are sampled as the leaves of a tree.

    See `vineppo/credit/tree.py`. The steps of `segmenter` are those of tables alone.
    """

    kind: Literal["tree"]
    segmenter: SegmenterConfig
    # Children of a node, level by level.
    branching: Annotated[tuple[Annotated[int, Field(ge=2)], ...], Field(min_length=1)]
    tokens_per_level: Count  # of the last level: what is left of `sampling.max_tokens`
    baseline: Literal["mean", "others"]  # of all children of a node, or of all but the own one
    normalize_std: bool  # by the deviation of a node's children
    # How often a segment trains: "once", or "by_leaves", as often as there are leaves below it.
    train_shared: Literal["once", "by_leaves"]


@dataclass(frozen=True)
class RlooCredit(Credit):
    """Reward minus the mean of the problem's other rollouts."""

    kind: Literal["rloo"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class MartingaleCredit(Credit):
    """Reward minus what a martingale says of the other tokens, which `values.credit` names."""

    own_values: ClassVar[str | None] = "posterior"

    kind: Literal["martingale"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class JoinedCredit(Credit):
    """Between sampled states, whose `num_continuations` each are joined with the outcomes.

    See `vineppo/credit/joined.py`; `states` as in `VineCredit`, of which "coin" and "expected" are
    unbiased. `values.credit` may name a martingale.
    """

    own_values: ClassVar[str | None] = "monte_carlo"

    kind: Literal["joined"]
    segmenter: SegmenterConfig
    num_continuations: Count
    identical_prefixes: IdenticalPrefixes
    states: StatesConfig | None

    @property
    def monte_carlo(self) -> MonteCarloValues:
        return MonteCarloValues(
            "monte_carlo", self.num_continuations, self.identical_prefixes, self.states
        )


@dataclass(frozen=True)
class DoublyRobustCredit(Credit):
    """GAE with λ = 1 − `probability` over any values by steps, corrected by continuations.

    Every step boundary has `num_continuations` of them with that probability.
    """

    own_values: ClassVar[str | None] = "critic"

    kind: Literal["doubly_robust"]
    num_continuations: Count
    probability: PositiveFraction
    segmenter: SegmenterConfig

    @property
    def monte_carlo(self) -> MonteCarloValues:
        # Kept apart: a state that rollouts share would be sampled with more than `probability`.
        coin = find("states", "coin")("coin", self.probability)
        return MonteCarloValues("monte_carlo", self.num_continuations, "separate", coin)


@dataclass(frozen=True)
class ReinforcePlusPlusCredit(Credit):
    """The reward to go; whitened over the batch by `optimization.whiten_advantages`."""

    kind: Literal["reinforce_plus_plus"]
    segmenter: SegmenterConfig
    gamma: Fraction


@dataclass(frozen=True)
class ReinforcePlusPlusBaselineCredit(Credit):
    """Reward minus the group's mean; whitened over the batch like `reinforce_plus_plus`."""

    kind: Literal["reinforce_plus_plus_baseline"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class RemaxCredit(Credit):
    """Reward minus that of the problem's greedy response, which is sampled besides."""

    kind: Literal["remax"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class PythonCredit(Credit):
    """A file with `advantages(options, rollouts_G) -> list[list[float]]` (docs/extending.md).

    With `num_continuations` above 0 the rollouts have Monte-Carlo values, as for `vine`, and else
    those of a critic where there is one.
    """

    own_values: ClassVar[str | None] = "monte_carlo"

    kind: Literal["python"]
    path: Name
    options: dict[str, Any]  # handed to `advantages`
    segmenter: SegmenterConfig
    num_continuations: CountOrZero
    identical_prefixes: IdenticalPrefixes

    @property
    def monte_carlo(self) -> MonteCarloValues | None:
        if not self.num_continuations:
            return None
        return MonteCarloValues(
            "monte_carlo", self.num_continuations, self.identical_prefixes, None
        )


CreditConfig = Annotated[
    VineCredit
    | GaeCredit
    | GrpoCredit
    | GigpoCredit
    | TreeCredit
    | RlooCredit
    | MartingaleCredit
    | JoinedCredit
    | DoublyRobustCredit
    | ReinforcePlusPlusCredit
    | ReinforcePlusPlusBaselineCredit
    | RemaxCredit
    | PythonCredit,
    Field(discriminator="kind"),
]
