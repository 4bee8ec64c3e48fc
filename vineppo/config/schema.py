"""The schema of the configs: dataclasses without a single default.

Every value stands in a jsonnet file, so `vineppo train x.jsonnet --dry-run` shows all that decides
a run. Where a key `kind` picks one of several dataclasses, the other keys of that table are the
fields of that dataclass. A comment beside a field gives its unit or its range.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

Fraction = Annotated[float, Field(ge=0, le=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
CountOrZero = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Dtype = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class LoraConfig:
    """Adapters of low rank that train in place of the weights (`vineppo/lora.py`)."""

    rank: Count
    alpha: Positive  # the adapters' product counts alpha / rank
    # Linear modules by the ends of their names, such as "q_proj".
    target_modules: Annotated[tuple[Name, ...], Field(min_length=1)]


@dataclass(frozen=True)
class ModelConfig:
    """The starting policy: an HF hub name, a directory, or `embedded:NAME` (in the package)."""

    path: Name
    dtype: Dtype
    attention: Literal["sdpa", "eager", "flash_attention_2"]
    gradient_checkpointing: bool
    lora: LoraConfig | None  # null: all weights train


@dataclass(frozen=True)
class LlamaArchitecture:
    """A Llama to train from scratch; its tokenizer is the task's own."""

    hidden_size: Count
    intermediate_size: Count
    num_layers: Count
    num_heads: Count
    num_key_value_heads: Count
    max_position_embeddings: Count


@dataclass(frozen=True)
class SftModelConfig:
    """A model to fine-tune: either `path` (as in `ModelConfig`) or a new `architecture`."""

    path: Name | None
    architecture: LlamaArchitecture | None
    dtype: Dtype
    attention: Literal["sdpa", "eager", "flash_attention_2"]
    gradient_checkpointing: bool
    lora: LoraConfig | None


@dataclass(frozen=True)
class TemplatePrompt:
    """`template` with `{question}` in it, tokenised with the tokenizer's special tokens."""

    kind: Literal["template"]
    template: str


@dataclass(frozen=True)
class ChatPrompt:
    """The tokenizer's chat template around one user message, `template` with `{question}` in it."""

    kind: Literal["chat"]
    template: str
    system: str | None


Prompt = Annotated[TemplatePrompt | ChatPrompt, Field(discriminator="kind")]


@dataclass(frozen=True)
class GradingConfig:
    """How an answer is found in a response, and the worker processes that compare it."""

    extraction: Literal["hash", "boxed", "final_answer", "last_number"]
    # A file with `reward(question, answer, response) -> float` in place of extraction and
    # comparison; null: these.
    reward_path: Name | None
    num_workers: Count
    time_limit_s: Positive  # per comparison; past it: wrong, and counted
    truncated_reward: (
        Annotated[float, Field(allow_inf_nan=False)] | None
    )  # reward of a response cut off by the budget; null: graded as is


@dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """Mistakes in the arithmetic demonstrations (see `vineppo/assets/README.md`)."""

    systematic_fraction: Fraction  # share of the facts (operation, a, b) with a fixed wrong result
    systematic_probability: Fraction  # how often such a fact is demonstrated wrongly
    random_probability: Fraction  # how often any other step is demonstrated wrongly at random


# What becomes of a train problem that the model has no room for.
TooLong = Literal["refuse", "leave_out"]


@dataclass(frozen=True, kw_only=True)
class TaskCommon:
    prompt: Prompt
    too_long: TooLong  # train problems; too long a test problem is always refused
    response_template: str  # with {solution} in it; what supervised fine-tuning teaches
    grading: GradingConfig


@dataclass(frozen=True, kw_only=True)
class ArithmeticTaskConfig(TaskCommon):
    """Generated chains of + - * modulo `modulus`; nothing is downloaded."""

    kind: Literal["arithmetic"]
    train_path: None
    test_path: None
    num_train_problems: Count
    num_test_problems: Count
    min_operations: Count
    max_operations: Count
    modulus: Annotated[int, Field(ge=2, le=10)]
    data_seed: Seed
    demonstrations: Demonstrations


@dataclass(frozen=True, kw_only=True)
class PublishedTask(TaskCommon):
    """A data set of the hub, and local files of the same fields that may stand in its place."""

    hub_path: Name
    hub_name: Name | None  # the subset; null where there is only one
    train_path: Name | None
    test_path: Name | None
    num_test_problems: Count | None


@dataclass(frozen=True, kw_only=True)
class Gsm8kTaskConfig(PublishedTask):
    kind: Literal["gsm8k"]


@dataclass(frozen=True, kw_only=True)
class MathTaskConfig(PublishedTask):
    kind: Literal["math"]


@dataclass(frozen=True, kw_only=True)
class SvampTaskConfig(PublishedTask):
    """For evaluation: there is no train set but a file of one's own."""

    kind: Literal["svamp"]


@dataclass(frozen=True, kw_only=True)
class OlympiadBenchTaskConfig(PublishedTask):
    """For evaluation: there is no train set but a file of one's own."""

    kind: Literal["olympiadbench"]


@dataclass(frozen=True, kw_only=True)
class PythonTaskConfig(TaskCommon):
    """A file with `load(options, split) -> list[Problem]` (`docs/extending.md`)."""

    kind: Literal["python"]
    path: Name
    options: dict[str, Any]  # handed to `load`
    train_path: None
    test_path: None
    num_test_problems: Count | None


PublishedTaskConfig = Gsm8kTaskConfig | MathTaskConfig | SvampTaskConfig | OlympiadBenchTaskConfig


@dataclass(frozen=True, kw_only=True)
class JsonlTaskConfig(TaskCommon):
    """A user's own JSONL files; `*_field` name the keys of a row."""

    kind: Literal["jsonl"]
    train_path: Name | None  # null: for `vineppo evaluate --task` alone
    test_path: Name
    num_test_problems: Count | None
    question_field: Name
    answer_field: Name
    solution_field: Name | None
    id_field: Name | None  # null: the row's number


TaskConfig = Annotated[
    ArithmeticTaskConfig | PublishedTaskConfig | JsonlTaskConfig | PythonTaskConfig,
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class VllmConfig:
    """vLLM in this process."""

    kind: Literal["vllm"]
    dtype: Dtype
    block_size: (
        Count  # tokens of a KV block, the grain of the prefix cache; a multiple of 32 on a CPU
    )
    max_model_len: Count
    max_num_seqs: Count  # sequences that run at once
    max_num_batched_tokens: Count  # tokens of one engine step
    tensor_parallel_size: Count  # ranks of one machine that share a replica; 1: each has its own
    cpu_kv_cache_gib: Count  # CPU only
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)]  # CUDA only
    enforce_eager: bool
    prefix_caching: bool
    sleep_while_training: bool  # CUDA only: give the KV cache's memory to the trainer


@dataclass(frozen=True)
class TransformersConfig:
    """transformers in this process: slower than vLLM, and needs nothing else."""

    kind: Literal["transformers"]
    dtype: Dtype
    max_model_len: Count
    max_num_seqs: Count  # sequences that run at once; each has max_model_len tokens of memory
    max_num_batched_tokens: Count  # tokens of one pass over prefixes, padding included


EngineConfig = Annotated[VllmConfig | TransformersConfig, Field(discriminator="kind")]


@dataclass(frozen=True)
class SamplingConfig:
    """The policy as it samples while training."""

    temperature: Annotated[float, Field(ge=0.01, le=2)]  # vLLM raises what is lower to 0.01
    top_p: Annotated[float, Field(gt=0, le=1)]
    max_tokens: Count  # tokens of a response


@dataclass(frozen=True)
class RolloutsConfig:
    num_prompts: Count
    num_samples: Count


@dataclass(frozen=True)
class LinesSegmenter:
    """One step a line; a line that starts with `####` belongs to the step before it."""

    kind: Literal["lines"]


@dataclass(frozen=True)
class MathSegmenter:
    """Sentences, lines, and the parts of formulas longer than `max_formula_chars`."""

    kind: Literal["math"]
    max_formula_chars: Count


@dataclass(frozen=True)
class TokensSegmenter:
    """One step every `num_tokens` tokens."""

    kind: Literal["tokens"]
    num_tokens: Count


@dataclass(frozen=True)
class PythonSegmenter:
    """A file with `cuts(text) -> list[int]` (`docs/extending.md`)."""

    kind: Literal["python"]
    path: Name


SegmenterConfig = Annotated[
    LinesSegmenter | MathSegmenter | TokensSegmenter | PythonSegmenter, Field(discriminator="kind")
]


@dataclass(frozen=True)
class VineCredit:
    """VinePPO: values by `num_continuations` fresh continuations from every step boundary."""

    kind: Literal["vine"]
    num_continuations: Count
    segmenter: SegmenterConfig
    # States of an iteration with the same token ids (the prompt of G rollouts, say):
    # "share"    K continuations are sampled once and serve every rollout that passes the state;
    # "union"    every rollout's K are sampled, and each of them gets the returns of all;
    # "separate" every rollout's K are sampled and kept apart.
    identical_prefixes: Literal["share", "union", "separate"]


@dataclass(frozen=True)
class GaeCredit:
    """PPO: generalised advantage estimation over a critic's values (`vineppo/credit/gae.py`)."""

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


@dataclass(frozen=True)
class GrpoCredit:
    """Reward minus the mean of the problem's rollouts, divided by their deviation or not."""

    kind: Literal["grpo"]
    segmenter: SegmenterConfig
    normalize_std: bool


@dataclass(frozen=True)
class RlooCredit:
    """Reward minus the mean of the problem's other rollouts."""

    kind: Literal["rloo"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class ReinforcePlusPlusCredit:
    """The reward to go; whitened over the batch by `optimization.whiten_advantages`."""

    kind: Literal["reinforce_plus_plus"]
    segmenter: SegmenterConfig
    gamma: Fraction


@dataclass(frozen=True)
class ReinforcePlusPlusBaselineCredit:
    """Reward minus the group's mean; whitened over the batch like `reinforce_plus_plus`."""

    kind: Literal["reinforce_plus_plus_baseline"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class RemaxCredit:
    """Reward minus that of the problem's greedy response, which is sampled besides."""

    kind: Literal["remax"]
    segmenter: SegmenterConfig


@dataclass(frozen=True)
class PythonCredit:
    """A file with `advantages(options, trajectories_G) -> list[list[float]]` (docs/extending.md).

    With `num_continuations` above 0 the trajectories have Monte-Carlo values, as for `vine`.
    """

    kind: Literal["python"]
    path: Name
    options: dict[str, Any]  # handed to `advantages`
    segmenter: SegmenterConfig
    num_continuations: CountOrZero
    identical_prefixes: Literal["share", "union", "separate"]  # as for `vine`


SampledValues = VineCredit | PythonCredit  # those that have `num_continuations`

CreditConfig = Annotated[
    VineCredit
    | GaeCredit
    | GrpoCredit
    | RlooCredit
    | ReinforcePlusPlusCredit
    | ReinforcePlusPlusBaselineCredit
    | RemaxCredit
    | PythonCredit,
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class FixedKl:
    """`reference.kl_coef` throughout."""

    kind: Literal["fixed"]


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

    path: Name | None
    kl_coef: NonNegative  # 0: the KL is measured and logged, and trains nothing
    kl_estimator: Literal["k1", "abs", "k2", "k3", "full"]
    kl_in: Literal["loss", "reward"]
    kl_clamp: tuple[float, float] | None  # bounds of one token's estimate, where it trains
    kl_gradient: Literal["own", "k2"]  # in the loss: "k2" keeps the value, with k2's gradient
    kl_aggregation: LossAggregation  # in the loss; see `optimization.loss_aggregation`
    kl_control: Annotated[FixedKl | AdaptiveKl, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """AdamW, and how an update is laid out on the machine."""

    learning_rate: Positive
    schedule: Literal["constant", "linear"]  # after the warm-up; linear ends at 0
    warmup_fraction: Fraction  # of all updates
    adam_beta1: Decay
    adam_beta2: Decay
    adam_eps: Positive
    weight_decay: NonNegative
    max_grad_norm: Positive
    num_epochs: Count  # passes over an iteration's rollouts, or over the demonstrations
    batch_size: Count  # sequences of one update, over all ranks
    micro_batch_size: Count  # sequences of one forward-backward on one rank
    zero_stage: Literal[0, 1, 2, 3]
    # What a GPU need not hold: nothing; the optimizer, whose step the CPU then makes; or, while the
    # engine is awake, full-precision weights and moments (it sleeps during updates).
    offload: Literal["nothing", "optimizer", "while_sampling"]


@dataclass(frozen=True)
class TruncatedImportance:
    """Per-token weight min(π_trainer/π_engine, max_weight) on the policy loss."""

    kind: Literal["truncated"]
    max_weight: Annotated[float, Field(ge=1, allow_inf_nan=False)]


@dataclass(frozen=True)
class MaskedImportance:
    """Per-token weight π_trainer/π_engine where it is in [min_weight, max_weight], 0 elsewhere."""

    kind: Literal["masked"]
    min_weight: NonNegative
    max_weight: Positive


ImportanceConfig = Annotated[TruncatedImportance | MaskedImportance, Field(discriminator="kind")]


@dataclass(frozen=True)
class PositiveExamples:
    """A language-model loss on the rollouts with a reward above `min_reward`."""

    coef: Positive
    min_reward: Annotated[float, Field(allow_inf_nan=False)]  # exclusive


@dataclass(frozen=True, kw_only=True)
class OptimizationConfig(AdamConfig):
    """The update of reinforcement learning: the clipped surrogate and what may join it."""

    logprobs_micro_batch_size: Count  # sequences of one forward without gradients on one rank
    clip_low: Fraction
    clip_high: NonNegative
    dual_clip: Annotated[float, Field(gt=1)] | None  # the loss where A < 0 is at most this · |A|
    # Over the whole update: mean over tokens; mean over sequences of their token means, or of their
    # token sums; or the sum over tokens divided by sequences · sampling.max_tokens.
    loss_aggregation: LossAggregation
    max_mean_ratio: Positive | None  # an update whose mean ratio exceeds it is skipped
    whiten_advantages: bool
    old_logprobs: Literal["engine", "trainer"]  # whose are the ratio's denominator
    importance_correction: ImportanceConfig | None  # of what the engine samples and trainer updates
    mask_truncated: bool  # rollouts cut off by the budget train nothing
    max_token_prob: (
        Annotated[float, Field(gt=0, le=1)] | None
    )  # tokens sampled with more than it train nothing; null: all do
    entropy_coef: NonNegative
    positive_examples: PositiveExamples | None


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


@dataclass(frozen=True, kw_only=True)
class SeparateCritic(AdamConfig, CriticCommon):
    """A value model of its own, with its own update; `path` null: from the starting policy.

    A reward model (`*ForSequenceClassification`, one label) keeps its head; a causal LM gets a
    new one.
    """

    kind: Literal["separate"]
    path: Name | None


@dataclass(frozen=True, kw_only=True)
class SharedCritic(CriticCommon):
    """A scalar head on the policy's backbone, trained in the policy's update."""

    kind: Literal["shared"]
    coef: Positive  # of the value loss beside the policy's
    head_learning_rate: Positive


CriticConfig = Annotated[SeparateCritic | SharedCritic, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class SftOptimizationConfig(AdamConfig):
    """The update of supervised fine-tuning."""

    max_tokens: Count  # of prompt and response; a longer demonstration is refused, never cut


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
    reference: ReferenceConfig
    optimization: OptimizationConfig
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    logging: LoggingConfig


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
