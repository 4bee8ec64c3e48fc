"""Value predictors: the keys that all share, those of the core, and which states are sampled."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from vineppo.config.require import require
from vineppo.config.schema.model import AdamConfig
from vineppo.config.schema.scalars import (
    Count,
    CountOrZero,
    FileName,
    Finite,
    Name,
    Positive,
    PositiveFraction,
)
from vineppo.plugins import Plugin, PluginConfig, find
from vineppo.types import CRITIC, MONTE_CARLO

if TYPE_CHECKING:
    from vineppo.config.schema.run import TrainConfig
    from vineppo.types import Rollout
    from vineppo.values import ValuePredictor

# States with the same token ids, such as the prompt of G rollouts: "share" samples K continuations
# once for all rollouts that pass the state, "separate" K for each.
IdenticalPrefixes = Literal["share", "separate"]


@dataclass(frozen=True)
class PredictorConfig(PluginConfig):
    """The keys of a value predictor, and what follows from them. Its class says all else."""

    @property
    def predictor(self) -> "type[ValuePredictor]":
        return find("values", self.kind)

    @property
    def returns_of(self) -> str | None:
        """It reads the returns of this predictor's continuations, to value or to learn; or None."""
        return None

    @property
    def values_of(self) -> str | None:
        """It reads this predictor's values; or None."""
        return None

    @property
    def frozen_path(self) -> str | None:
        """A frozen model that it asks, with the policy's tokenizer; None: none."""
        return None


@dataclass(frozen=True)
class States(PluginConfig):
    """Chooses the step boundaries of a rollout that are sampled, s_0 never; sees no return."""

    is_by_prefix: ClassVar[bool] = False  # the tokens before a boundary decide on it
    reads_entropies = False  # of the policy, before the rollout's tokens

    def chosen(self, rollout: "Rollout", seed: int, scale: float | None = None) -> Collection[int]:
        """The steps before which the rollout is sampled, of 1 … S − 1."""
        raise NotImplementedError

    def expected(self, num_boundaries: float) -> float:
        """How many of a rollout's boundaries are chosen on average; `vineppo estimate` asks."""
        return num_boundaries

    def next_scale(self, rollouts: Sequence["Rollout"]) -> float | None:  # noqa: ARG002
        """The `scale` of `chosen` in the next iteration; None: none."""
        return None

    def mean_chance(self, rollouts: Sequence["Rollout"], scale: float | None) -> float | None:  # noqa: ARG002
        """The mean probability of a boundary; None where it is not measured."""
        return None


# null: all states, s_0 with them.
StatesConfig = Annotated[States, Plugin("states")]


@dataclass(frozen=True)
class MonteCarloValues(PredictorConfig):
    """The mean return of fresh continuations; with 256 of them, the oracle that others face."""

    num_continuations: Count
    identical_prefixes: IdenticalPrefixes = "share"
    states: StatesConfig | None = None


@dataclass(frozen=True)
class ReturnsReader(PredictorConfig):
    """Keys of one that values states by the returns of another's continuations."""

    of: Name = MONTE_CARLO  # the other, by default the one that the estimator names

    @property
    def returns_of(self) -> str:
        return self.of

    def check(self, key: str, config: "TrainConfig") -> None:
        require(
            sampled_by(f"{key}.of", self.of, config).states is None,
            f"{key}.of must be a predictor whose states is null, got {self.of}",
        )


def sampled_by(key: str, name: str, config: "TrainConfig") -> MonteCarloValues:
    """The continuations of predictor `name`, which `key` names; `UserError` if it has none."""
    held = config.continuations
    require(
        name in held,
        f"{key} must be a predictor of the run that samples continuations "
        f"({', '.join(held) or 'none'}), got {name}",
    )
    return held[name]


@dataclass(frozen=True)
class SquaredError:
    """½ (V − target)², the larger of it and of V kept within `clip` of its old value."""

    bounds: ClassVar[None] = None

    kind: Literal["squared_error"]
    clip: Positive | None = 0.2


@dataclass(frozen=True)
class CrossEntropy:
    """V = low + (high − low) · sigmoid(head), trained by binary cross-entropy."""

    kind: Literal["cross_entropy"]
    low: Finite
    high: Finite

    @property
    def bounds(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True, kw_only=True)
class CriticConfig(PredictorConfig):
    """How a value model trains."""

    trains_with_policy: ClassVar[bool] = False  # in its update: a head on its backbone
    outputs: ClassVar[Any] = None  # makes a `ValueOutputs` in place of `ValueOutputs.load`

    loss: Annotated[SquaredError | CrossEntropy, Field(discriminator="kind")] = SquaredError(
        "squared_error"
    )
    head_init: Literal["normal", "zero", "mean"] = "normal"  # of a new head (`values/heads.py`)
    # The first iterations, which train the critic alone; as many as there are: only that.
    warmup_iterations: CountOrZero = 0

    def check(self, key: str, config: "TrainConfig") -> None:
        most = config.num_iterations if key == CRITIC else 0
        require(
            self.warmup_iterations <= most,
            f"{key}.warmup_iterations must be at most {most} (num_iterations for critic, 0 for "
            f"others), got {self.warmup_iterations}",
        )
        if self.loss.bounds is not None:
            check_rewards_within(*self.loss.bounds, f"{key}.loss", config)
            require(
                config.reference.kl_in == "loss",
                f"{key}.loss.kind must be 'squared_error' when reference.kl_in is 'reward', got "
                "'cross_entropy'",
            )


@dataclass(frozen=True, kw_only=True)
class SeparateCritic(AdamConfig, CriticConfig):
    """A separate value model with a separate update."""

    # A reward model (`*ForSequenceClassification`) keeps its head; null: the starting policy.
    path: Name | None = None
    # It learns the continuations' returns of this predictor; null: the rollouts' rewards.
    learns_from: Name | None = None
    # The head's rate, on the schedule of `learning_rate`; null: one rate for all. Before a head at
    # zero has grown no gradient passes it.
    head_learning_rate: PositiveFraction | None = None

    @property
    def returns_of(self) -> str | None:
        return self.learns_from

    @property
    def learns(self) -> bool:
        return True

    def check(self, key: str, config: "TrainConfig") -> None:
        super().check(key, config)
        if self.learns_from is None:
            return
        states = sampled_by(f"{key}.learns_from", self.learns_from, config).states
        require(
            states is None or states.is_by_prefix,
            f"{key}.learns_from must be a predictor whose states are null, 'coin' or 'expected', "
            f"got {self.learns_from}",
        )
        require(
            config.reference.kl_in == "loss",
            f"{key}.learns_from must be null where reference.kl_in is 'reward', got "
            f"{self.learns_from}",
        )


@dataclass(frozen=True)
class ValuesConfig:
    """Value predictors besides the estimator's, which are "monte_carlo" and "critic".

    All are measured; `credit` names the one that feeds the estimator, null the estimator's.
    """

    credit: Name | None = None
    predictors: dict[FileName, Annotated[PredictorConfig, Plugin("values")]] = field(
        default_factory=dict
    )


def check_rewards_within(low: float, high: float, what: str, config: "TrainConfig") -> None:
    """Raises `UserError` where a reward may lie outside of [low, high], which `what` needs."""
    task, scorer = config.task, config.reward_model
    needs = f"for {what} (which needs rewards within [{low:g}, {high:g}])"
    for key, value in (
        ("task.grading.reward_path", task.grading.reward_path),
        ("task.environment", task.environment),
    ):
        require(value is None, f"{key} must be null {needs}, got {value!r}")
    require(
        scorer is None or scorer.is_bounded,
        f"reward_model.output must be 'probability' {needs}, got 'score'",
    )
    truncated = task.grading.truncated_reward or 0.0
    require(
        low <= min(0.0, truncated) and high >= max(1.0, truncated),
        f"{what} must have room for rewards of 0, 1 and task.grading.truncated_reward = "
        f"{truncated}, got [{low:g}, {high:g}]",
    )
