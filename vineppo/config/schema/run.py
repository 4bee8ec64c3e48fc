"""Whole configs, and what surrounds a run."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from vineppo.config.schema.credit import (
    CreditConfig,
    ValuesConfig,
)
from vineppo.config.schema.critic import (
    CriticConfig,
    SeparateCritic,
)
from vineppo.config.schema.engine import (
    EngineConfig,
    RolloutsConfig,
    SamplingConfig,
)
from vineppo.config.schema.model import (
    ModelConfig,
    SftModelConfig,
)
from vineppo.config.schema.optimization import (
    OptimizationConfig,
    ReferenceConfig,
    SftOptimizationConfig,
)
from vineppo.config.schema.scalars import (
    Count,
    CountOrZero,
    FileName,
    Name,
    Seed,
)
from vineppo.config.schema.task import (
    TaskConfig,
)


@dataclass(frozen=True)
class EvaluationConfig:
    every: CountOrZero  # iterations; 0: only at the end
    num_samples: Count
    temperature: Annotated[float, Field(ge=0, le=2)]  # 0: greedy
    top_p: Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class CheckpointConfig:
    every: CountOrZero  # iterations; 0: only the final policy is saved
    keep: Count


@dataclass(frozen=True)
class LoggingConfig:
    wandb_project: Name | None  # null: no wandb


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """`vineppo train`."""

    name: FileName
    seed: Seed
    num_iterations: Count
    model: ModelConfig
    task: TaskConfig
    engine: EngineConfig
    sampling: SamplingConfig
    rollouts: RolloutsConfig
    credit: CreditConfig
    critic: CriticConfig | None
    values: ValuesConfig
    reference: ReferenceConfig
    optimization: OptimizationConfig
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    logging: LoggingConfig

    @property
    def separate_critic(self) -> SeparateCritic | None:
        return self.critic.own_model if self.critic is not None else None

    @property
    def has_shared_critic(self) -> bool:
        return self.critic is not None and self.critic.own_model is None


@dataclass(frozen=True, kw_only=True)
class SftConfig:
    """`vineppo sft`; an iteration is one update."""

    name: FileName
    seed: Seed
    model: SftModelConfig
    task: TaskConfig
    engine: EngineConfig
    sampling: SamplingConfig
    optimization: SftOptimizationConfig
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    logging: LoggingConfig
