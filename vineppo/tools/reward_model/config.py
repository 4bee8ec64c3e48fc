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
class PairsCommon:
    # Pairs to evaluate on: the first of the test set; without one, pairs of prompts that are held
    # out of the train set whole, until there are so many.
    num_test_pairs: Count
    too_long: TooLong  # a pair with a side over `optimization.max_tokens`


@dataclass(frozen=True, kw_only=True)
class TextPairs(PairsCommon):
    """Rows with `chosen` and `rejected`: conversations, or texts beside a text `prompt`."""

    prompt: Prompt
    margin_field: Name | None  # the row's number by which `chosen` must lead; null: 0


@dataclass(frozen=True, kw_only=True)
class JsonlPairs(TextPairs):
    kind: Literal["jsonl"]
    train_path: Name
    test_path: Name | None


@dataclass(frozen=True, kw_only=True)
class HubPairs(TextPairs):
    kind: Literal["hub"]
    hub_path: Name
    hub_name: Name | None  # the subset; null where there is only one
    train_split: Name
    test_split: Name | None


@dataclass(frozen=True, kw_only=True)
class RunPairs(PairsCommon):
    run_dirs: Annotated[tuple[Name, ...], Field(min_length=1)]
    pairs_per_problem: Count  # at most


@dataclass(frozen=True, kw_only=True)
class RolloutPairs(RunPairs):
    """The rollouts of runs: of each problem a right response against a wrong one."""

    kind: Literal["rollouts"]


@dataclass(frozen=True, kw_only=True)
class StatePairs(RunPairs):
    """The states of runs with continuations: of each problem a better one against a worse one.

    They are the responses up to a step boundary, valued by the mean return of their continuations,
    and the whole responses with their rewards.
    """

    kind: Literal["states"]
    min_gap: PositiveFraction  # by which the values differ at least


PairsConfig = Annotated[
    JsonlPairs | HubPairs | RolloutPairs | StatePairs, Field(discriminator="kind")
]


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
    pairs: PairsConfig
    optimization: SftOptimizationConfig
    evaluation: PairEvaluationConfig = PairEvaluationConfig()
    checkpoint: CheckpointConfig = field(default_factory=CheckpointConfig)
    logging: LoggingConfig

    def check(self) -> None:
        if isinstance(self.pairs, TextPairs):
            require_holding("pairs.prompt.template", self.pairs.prompt.template, "{question}")
        require(
            self.model.lora is None,
            "model.lora must be null for a reward model (all of its weights train), got a table",
        )
        check_updates(self)
