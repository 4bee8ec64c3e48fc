"""Whole configs: the updates, and what surrounds a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from vineppo.config.schema.engine import EngineConfig
from vineppo.config.schema.model import (
    AdamConfig,
    ModelConfig,
    RolloutsConfig,
    SamplingConfig,
    SftModelConfig,
)
from vineppo.config.schema.scalars import (
    Count,
    CountOrZero,
    FileName,
    Finite,
    Name,
    NonNegative,
    Positive,
    PositiveFraction,
    Seed,
    Share,
)
from vineppo.config.schema.task import Task
from vineppo.config.schema.values import (
    CriticConfig,
    MonteCarloValues,
    PredictorConfig,
    SeparateCritic,
    ValuesConfig,
)
from vineppo.credit import Credit
from vineppo.plugins import Plugin, PluginConfig
from vineppo.types import CRITIC, MONTE_CARLO, predictor_key


@dataclass(frozen=True)
class FixedKl:
    """`reference.kl_coef` throughout."""

    kind: Literal["fixed"] = "fixed"


@dataclass(frozen=True)
class AdaptiveKl:
    """`reference.kl_coef` at first, then steered towards a KL of `target` (`kl.adapted_coef`)."""

    kind: Literal["adaptive"]
    target: Positive  # nats a sequence, of the raw estimate
    horizon: Positive  # sequences


LossAggregation = Literal["token_mean", "sequence_mean", "sequence_sum", "fixed_length"]


@dataclass(frozen=True)
class ReferenceConfig:
    """The frozen reference policy (`path` null: the starting policy) and the KL to it."""

    path: Name | None = None
    kl_coef: NonNegative = 1e-4  # 0: the KL is measured and logged, and trains nothing
    # null: there is no reference
    kl_estimator: Literal["k1", "abs", "k2", "k3", "full"] | None = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    kl_clamp: tuple[float, float] | None = (0.0, 10.0)  # of a token's estimate, where it trains
    # The next three are of the loss: "k2" keeps the value, with k2's gradient; weighted by π/π_old
    # of the token, for epochs after the first; as `optimization.loss_aggregation`.
    kl_gradient: Literal["own", "k2"] = "own"
    kl_importance: bool = False
    kl_aggregation: LossAggregation = "sequence_sum"
    kl_control: Annotated[FixedKl | AdaptiveKl, Field(discriminator="kind")] = FixedKl()


ImportanceLevel = Literal["token", "sequence"]  # whose probabilities: each token's, the response's


@dataclass(frozen=True)
class TruncatedImportance:
    """Weight min(π_trainer/π_engine, max_weight) on a token's policy loss."""

    kind: Literal["truncated"]
    max_weight: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    level: ImportanceLevel = "token"


@dataclass(frozen=True)
class MaskedImportance:
    """Weight π_trainer/π_engine where it is in [min_weight, max_weight], 0 elsewhere."""

    kind: Literal["masked"]
    min_weight: NonNegative
    max_weight: Positive
    level: ImportanceLevel = "token"


ImportanceConfig = Annotated[TruncatedImportance | MaskedImportance, Field(discriminator="kind")]


@dataclass(frozen=True)
class PositiveExamples:
    """A language-model loss on the rollouts with a reward above `min_reward`."""

    coef: Positive
    min_reward: Finite  # exclusive


@dataclass(frozen=True, kw_only=True)
class OptimizationConfig(AdamConfig):
    """The update of reinforcement learning: the clipped surrogate and what may join it."""

    learning_rate: PositiveFraction = 1e-6
    logprobs_micro_batch_size: Count  # the same of a forward without gradients
    # What an epoch draws anew, of critics too: rollouts, or those behind one prompt together, which
    # can then pass once for them (`vineppo.batching.MIN_SAVED`).
    shuffle: Literal["rollouts", "groups"] = "rollouts"
    # What is clipped: each token's ratio, the response's, or the weight of the log-likelihood.
    policy_loss: Literal["ppo", "gspo", "cispo"] = "ppo"
    clip_low: Share = 0.2
    clip_high: NonNegative = 0.2
    dual_clip: Annotated[float, Field(gt=1)] | None = None  # loss ≤ this · |A| where A < 0
    # Over the whole update: mean over tokens; mean over sequences of their token means, or of their
    # token sums; or the sum over tokens divided by sequences · sampling.max_tokens.
    loss_aggregation: LossAggregation = "token_mean"
    max_mean_ratio: Positive | None = 10.0  # an update whose mean ratio exceeds it is skipped
    # Nats between a token's log-probability by engine and trainer, beyond which the run ends: the
    # engine's weights or cached prefixes are stale. null: it is logged alone.
    max_logprob_gap: Positive | None = None
    whiten_advantages: bool = True
    old_logprobs: Literal["engine", "trainer"] = "engine"  # whose are the ratio's denominator
    importance_correction: ImportanceConfig | None = None  # of engine against trainer
    mask_truncated: bool = False  # rollouts cut off by the budget train nothing
    mask_equal_rewards: bool = False  # nor do those of a problem whose rollouts all got one reward
    max_redraws: CountOrZero = 0  # times that an iteration draws further problems in place of those
    # Tokens sampled with more than it train nothing; null: all do.
    max_token_prob: PositiveFraction | None = None
    token_mask_path: Name | None = None  # a Python file with `trains(rollout)`: one truth a token
    resampling: Literal["best_worst"] | None = None  # of a problem's rollouts; null: all train
    entropy_coef: NonNegative = 0.0
    positive_examples: PositiveExamples | None = None


@dataclass(frozen=True, kw_only=True)
class SftOptimizationConfig(AdamConfig):
    """The update of supervised fine-tuning, or of a reward model, where sequences are pairs."""

    learning_rate: PositiveFraction = 1e-5
    max_tokens: Count  # of prompt and response; what is longer is never cut


@dataclass(frozen=True)
class EvaluationConfig:
    every: CountOrZero = 10  # iterations; 0: only at the end
    num_samples: Count = 16
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.35  # 0: greedy
    top_p: PositiveFraction = 0.9
    top_k: Count | None = None
    min_p: Share = 0.0


@dataclass(frozen=True)
class ScorerConfig(PluginConfig):
    """Joins a score to the verifier's reward of a response; a kind adds its keys."""

    @property
    def is_bounded(self) -> bool:
        """It keeps rewards within [0, 1]."""
        return False

    @property
    def frozen_path(self) -> str | None:
        """A frozen model that it reads, with the policy's tokenizer."""
        return None

    def start(self, config: "TrainConfig", loaded: Any) -> Any:
        """The running `rollouts.Scorer`."""
        raise NotImplementedError


@dataclass(frozen=True)
class CheckpointConfig:
    every: CountOrZero = 10  # iterations; 0: only the final policy is saved
    keep: Count = 2


@dataclass(frozen=True)
class LoggingConfig:
    wandb_project: Name | None  # null: no wandb


class AnyConfig:
    """The keys that every command that trains has."""

    name: str
    seed: int
    model: Any
    optimization: AdamConfig
    evaluation: Any
    checkpoint: CheckpointConfig
    logging: LoggingConfig

    def check(self) -> None:
        """Raises `UserError` for keys that do not fit each other."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(AnyConfig):
    """`vineppo train`."""

    name: FileName
    seed: Seed
    num_iterations: Count
    model: ModelConfig
    task: Annotated[Task, Plugin("task")]
    engine: Annotated[EngineConfig, Plugin("engine")]
    sampling: SamplingConfig
    rollouts: RolloutsConfig = RolloutsConfig()
    # null: the verifier alone
    reward_model: Annotated[ScorerConfig, Plugin("scorer")] | None = None
    credit: Annotated[Credit, Plugin("credit")]
    critic: Annotated[CriticConfig, Plugin("values")] | None = None
    values: ValuesConfig = ValuesConfig()
    reference: ReferenceConfig = ReferenceConfig()
    optimization: OptimizationConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    logging: LoggingConfig

    @property
    def predictors(self) -> dict[str, PredictorConfig]:
        """All of the run; those that read others' values come last."""
        held = {MONTE_CARLO: self.credit.monte_carlo, CRITIC: self.critic} | self.values.predictors
        found = {name: keys for name, keys in held.items() if keys is not None}
        return dict(sorted(found.items(), key=lambda item: item[1].values_of is not None))

    @property
    def continuations(self) -> dict[str, MonteCarloValues]:
        """The predictors that sample continuations."""
        return {k: x for k, x in self.predictors.items() if isinstance(x, MonteCarloValues)}

    @property
    def value_models(self) -> dict[str, SeparateCritic]:
        """The predictors that are separate models, by the key of their tables."""
        held = self.predictors.items()
        return {predictor_key(name): x for name, x in held if isinstance(x, SeparateCritic)}

    @property
    def reads_entropies(self) -> bool:
        """Steps or cuts go by the policy's entropies, which take a pass of the policy."""
        chosen = (sampled.states for sampled in self.continuations.values())
        by_entropy = any(states is not None and states.reads_entropies for states in chosen)
        return by_entropy or self.credit.segmenter.reads_entropies

    @property
    def max_valued_tokens(self) -> int:
        """The most tokens of a response that get a value; bootstrapping adds one."""
        return self.sampling.max_tokens + self.credit.bootstraps

    @property
    def has_shared_critic(self) -> bool:
        return self.critic is not None and self.critic.trains_with_policy


@dataclass(frozen=True, kw_only=True)
class FineTuning(PluginConfig):
    """Another way of fine-tuning than on demonstrations; a kind adds its keys."""

    def train(self, config: "SftConfig", directory: Path) -> None:
        """Runs `config` to its end in `directory`."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SftConfig(AnyConfig):
    """`vineppo sft`; an iteration is one update, or one of `self_training`."""

    name: FileName
    seed: Seed
    model: SftModelConfig
    task: Annotated[Task, Plugin("task")]
    engine: Annotated[EngineConfig, Plugin("engine")]
    sampling: SamplingConfig
    # null: on the demonstrations of the task
    self_training: Annotated[FineTuning, Plugin("fine_tuning")] | None = None
    optimization: SftOptimizationConfig
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    logging: LoggingConfig
