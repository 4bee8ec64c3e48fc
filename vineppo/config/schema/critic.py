"""Learned values."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from vineppo.config.schema.optimization import (
    AdamConfig,
)
from vineppo.config.schema.scalars import (
    CountOrZero,
    Name,
    Positive,
)


@dataclass(frozen=True)
class SquaredError:
    """½ (V − target)², the larger of it and of V kept within `clip` of its old value."""

    kind: Literal["squared_error"]
    clip: Positive | None


@dataclass(frozen=True)
class CrossEntropy:
    """V = low + (high − low) · sigmoid(head), trained by binary cross-entropy."""

    kind: Literal["cross_entropy"]
    low: Annotated[float, Field(allow_inf_nan=False)]
    high: Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class CriticCommon:
    loss: Annotated[SquaredError | CrossEntropy, Field(discriminator="kind")]
    # The first iterations, which train the critic alone; as many as there are: only that.
    warmup_iterations: CountOrZero

    @property
    def own_model(self) -> "SeparateCritic | None":
        """Where it is a model of its own, with an optimizer of its own."""
        return None


@dataclass(frozen=True, kw_only=True)
class SeparateCritic(AdamConfig, CriticCommon):
    """A value model of its own, with its own update; `path` null: from the starting policy.

    A reward model (`*ForSequenceClassification`, one label) keeps its head; a causal LM gets a
    new one.
    """

    kind: Literal["separate"]
    path: Name | None

    @property
    def own_model(self) -> "SeparateCritic | None":
        return self


@dataclass(frozen=True, kw_only=True)
class SharedCritic(CriticCommon):
    """A scalar head on the policy's backbone, trained in the policy's update."""

    kind: Literal["shared"]
    coef: Positive  # of the value loss beside the policy's
    head_learning_rate: Positive


CriticConfig = Annotated[SeparateCritic | SharedCritic, Field(discriminator="kind")]
