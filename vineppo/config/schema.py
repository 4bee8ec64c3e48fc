"""The schema of the configs: dataclasses without a single default.

Every value stands in a jsonnet file, so `vineppo train x.jsonnet --dry-run` shows all that decides
a run. Where a key `kind` picks one of several dataclasses, the other keys of that table are the
fields of that dataclass. A comment beside a field gives its unit or its range.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

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
class ModelConfig:
    """The starting policy: an HF hub name, a directory, or `embedded:NAME` (in the package)."""

    path: Name
    dtype: Dtype
    attention: Literal["sdpa", "eager", "flash_attention_2"]
    gradient_checkpointing: bool


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

    extraction: Literal["hash", "boxed", "last_number"]
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


@dataclass(frozen=True, kw_only=True)
class TaskCommon:
    prompt: Prompt
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
class Gsm8kTaskConfig(TaskCommon):
    """GSM8K from the hub (`hub_path`, subset `hub_name`), or from local JSONL files."""

    kind: Literal["gsm8k"]
    hub_path: Name
    hub_name: Name
    train_path: Name | None
    test_path: Name | None
    num_test_problems: Count | None


@dataclass(frozen=True, kw_only=True)
class JsonlTaskConfig(TaskCommon):
    """A user's own JSONL files; `*_field` name the keys of a row."""

    kind: Literal["jsonl"]
    train_path: Name
    test_path: Name
    num_test_problems: Count | None
    question_field: Name
    answer_field: Name
    solution_field: Name | None
    id_field: Name | None  # null: the row's number


TaskConfig = Annotated[
    ArithmeticTaskConfig | Gsm8kTaskConfig | JsonlTaskConfig, Field(discriminator="kind")
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
    cpu_kv_cache_gib: Count  # CPU only
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)]  # CUDA only
    enforce_eager: bool
    prefix_caching: bool
    sleep_while_training: bool  # CUDA only: give the KV cache's memory to the trainer


EngineConfig = VllmConfig


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


SegmenterConfig = Annotated[
    LinesSegmenter | MathSegmenter | TokensSegmenter, Field(discriminator="kind")
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


CreditConfig = VineCredit


@dataclass(frozen=True)
class ReferenceConfig:
    """The frozen reference policy (`path` null: the starting policy) and the KL to it."""

    path: Name | None
    kl_coef: NonNegative  # 0: the KL is measured and logged, and trains nothing
    kl_estimator: Literal["k2", "k3"]  # k1 has no gradient in expectation
    kl_in: Literal["loss"]
    kl_clamp: Positive | None  # upper bound of the estimate of one token


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


@dataclass(frozen=True, kw_only=True)
class OptimizationConfig(AdamConfig):
    """The update of reinforcement learning: the clipped surrogate."""

    logprobs_micro_batch_size: Count  # sequences of one forward without gradients on one rank
    clip_low: Fraction
    clip_high: NonNegative
    max_mean_ratio: Positive | None  # an update whose mean ratio exceeds it is skipped
    whiten_advantages: bool
    old_logprobs: Literal[
        "engine", "trainer"
    ]  # whose log-probabilities are the ratio's denominator


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
    critic: None
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
