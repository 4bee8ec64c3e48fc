"""The config of `vineppo reward-model`, and where its preference pairs come from."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from vineppo.config.checks import check_updates
from vineppo.config.require import require, require_holding
from vineppo.config.schema import (
    AnyConfig,
    CheckpointConfig,
    LoggingConfig,
    ModelConfig,
    Prompt,
    SftOptimizationConfig,
    TooLong,
)
from vineppo.config.schema.scalars import Count, CountOrZero, FileName, Name, PositiveFraction, Seed


@dataclass(frozen=True, kw_only=True)
class JsonlPairs:
    """Rows with the texts `prompt`, `chosen` and `rejected`."""

    kind: Literal["jsonl"]
    num_test_pairs: Count  # the first of `test_path`; without one, held-out prompts of `train_path`
    too_long: TooLong  # a pair with a side over `optimization.max_tokens`
    prompt: Prompt
    train_path: Name
    test_path: Name | None


@dataclass(frozen=True, kw_only=True)
class RunPairs:
    """Responses of runs: of each problem a better one against one that is worse by `min_gap`.

    `rollouts`: right against wrong responses. `states`: also the responses up to a step boundary,
    valued by the mean return of their continuations.
    """

    kind: Literal["rollouts", "states"]
    num_test_pairs: Count  # of prompts that are held out whole
    too_long: TooLong
    run_dirs: Annotated[tuple[Name, ...], Field(min_length=1)]
    pairs_per_problem: Count  # at most
    min_gap: PositiveFraction = 1.0


@dataclass(frozen=True)
class PairEvaluationConfig:
    every: CountOrZero = 10  # iterations; 0: only at the end


@dataclass(frozen=True, kw_only=True)
class RewardModelConfig(AnyConfig):
    """`vineppo reward-model`; an iteration is one update."""

    name: FileName
    seed: Seed
    model: ModelConfig
    head_init: Literal["normal", "zero"] = "zero"  # of a new head (`values/heads.py`)
    pairs: Annotated[JsonlPairs | RunPairs, Field(discriminator="kind")]
    optimization: SftOptimizationConfig
    evaluation: PairEvaluationConfig = PairEvaluationConfig()
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logging: LoggingConfig

    def check(self) -> None:
        if isinstance(self.pairs, JsonlPairs):
            require_holding("pairs.prompt.template", self.pairs.prompt.template, "{question}")
        require(
            self.model.lora is None,
            "model.lora must be null for a reward model (all of its weights train), got a table",
        )
        check_updates(self)
