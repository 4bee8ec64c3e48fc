"""The model and the task."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from vineppo.config.schema.scalars import (
    Count,
    CountOrZero,
    Dtype,
    Finite,
    Fraction,
    Name,
    Positive,
    PositiveFraction,
    Seed,
    TimeLimit,
)


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
    dtype: Dtype = "bfloat16"
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient_checkpointing: bool | Literal["auto"] = "auto"  # on a GPU
    lora: LoraConfig | None = None  # null: all weights train


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

    path: Name | None = None
    architecture: LlamaArchitecture | None = None
    dtype: Dtype = "bfloat16"
    attention: Literal["sdpa", "eager"] = "sdpa"
    gradient_checkpointing: bool | Literal["auto"] = "auto"
    lora: LoraConfig | None = None


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
    # A file, or FILE.py:FUNCTION, with a reward function in place of extraction and comparison
    # (`own_reward.py` has its forms); null: these.
    reward_path: Name | None
    num_workers: Count
    time_limit_s: TimeLimit  # of processor time, per comparison; past it: 0, and counted
    truncated_reward: Finite | None  # of a response cut off by the budget; null: graded as is
    # A pass mark: how many of the answer's characters must be right, each an answer of its own;
    # null: the answer is one.
    num_matching: Count | None


@dataclass(frozen=True, kw_only=True)
class Demonstrations:
    """Mistakes in the arithmetic demonstrations (see `vineppo/assets/README.md`)."""

    systematic_fraction: Fraction  # share of the facts (operation, a, b) with a fixed wrong result
    systematic_probability: Fraction  # how often such a fact is demonstrated wrongly
    random_probability: Fraction  # how often any other step is demonstrated wrongly at random


@dataclass(frozen=True, kw_only=True)
class EnvironmentCommon:
    max_turn_tokens: Count  # of a turn; a longer one ends the episode as truncated


@dataclass(frozen=True, kw_only=True)
class DrillEnvironment(EnvironmentCommon):
    """The chains of task.kind 'arithmetic', an operation a turn (`tasks/drill.py`)."""

    kind: Literal["drill"]


@dataclass(frozen=True, kw_only=True)
class PythonEnvironment(EnvironmentCommon):
    """A file with a class `Environment` (docs/environments.md)."""

    kind: Literal["python"]
    path: Name
    options: dict[str, Any]  # handed to `Environment`


@dataclass(frozen=True, kw_only=True)
class VerifiersEnvironment(EnvironmentCommon):
    """That of task.kind 'verifiers', which names it."""

    kind: Literal["verifiers"]


EnvironmentConfig = Annotated[
    DrillEnvironment | PythonEnvironment | VerifiersEnvironment, Field(discriminator="kind")
]

# What becomes of a train problem that the model has no room for.
TooLong = Literal["refuse", "leave_out"]


@dataclass(frozen=True, kw_only=True)
class TaskCommon:
    prompt: Prompt
    too_long: TooLong  # train problems; too long a test problem is always refused
    response_template: str  # with {solution} in it; what supervised fine-tuning teaches
    grading: GradingConfig
    environment: EnvironmentConfig | None  # that answers the policy and rewards it; null: one turn


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
class WordedTaskConfig(TaskCommon):
    """Generated chains or sheets with free wordings; some steps decide (`tasks/worded.py`).

    A chain goes on from each result; a sheet's operations are separate, and enough of them
    (`grading.num_matching`) must be right.
    """

    kind: Literal["worded"]
    layout: Literal["chain", "sheet"]
    train_path: None
    test_path: None
    num_train_problems: Count
    num_test_problems: Count
    num_operations: Count
    num_hard_steps: CountOrZero  # steps of a problem whose result is in doubt
    num_hard_facts: Count  # the facts (operation, a, b) that they meet
    wrong_probability: Fraction  # how often a hard fact is demonstrated wrongly
    repair_probability: Fraction  # how often a wrong result is taken back in the next line
    num_openers: Annotated[int, Field(ge=1, le=8)]  # words that a line may begin with
    num_remarks: CountOrZero  # lines behind each operation that decide nothing
    modulus: Annotated[int, Field(ge=2, le=10)]
    data_seed: Seed


@dataclass(frozen=True, kw_only=True)
class PublishedTaskConfig(TaskCommon):
    """A data set of the hub, and local files of the same fields that may stand in its place.

    SVAMP and OlympiadBench are for evaluation: they have no train set but a file of one's own.
    """

    kind: Literal["gsm8k", "math", "svamp", "olympiadbench"]
    hub_path: Name
    hub_name: Name | None  # the subset; null where there is only one
    train_path: Name | None
    test_path: Name | None
    num_test_problems: Count | None


@dataclass(frozen=True, kw_only=True)
class PythonTaskConfig(TaskCommon):
    """A file with `load(options, split) -> list[Problem]` (`docs/extending.md`)."""

    kind: Literal["python"]
    path: Name
    options: dict[str, Any]  # handed to `load`
    train_path: None
    test_path: None
    num_test_problems: Count | None


@dataclass(frozen=True, kw_only=True)
class VerifiersTaskConfig(TaskCommon):
    """The problems of an environment of the library verifiers (`tasks/verifiers.py`)."""

    kind: Literal["verifiers"]
    id: Name  # the module that has `load_environment`
    options: dict[str, Any]  # handed to it
    train_path: None
    test_path: None
    num_test_problems: Count | None


@dataclass(frozen=True, kw_only=True)
class JsonlTaskConfig(TaskCommon):
    """A user's own files of rows (.jsonl, .json, .parquet); `*_field` name the keys of a row.

    "a.b" is the key b of the table a, where no key is called that itself.
    """

    kind: Literal["jsonl"]
    train_path: Name | None  # null: for `vineppo evaluate --task` alone
    test_path: Name
    num_test_problems: Count | None
    question_field: Name
    answer_field: Name
    solution_field: Name | None
    id_field: Name | None  # null: the row's number


TaskConfig = Annotated[
    ArithmeticTaskConfig
    | WordedTaskConfig
    | PublishedTaskConfig
    | JsonlTaskConfig
    | PythonTaskConfig
    | VerifiersTaskConfig,
    Field(discriminator="kind"),
]


@dataclass(frozen=True)
class SamplingConfig:
    """The policy as it samples while training."""

    temperature: Annotated[float, Field(ge=0.01, le=2)] = 1.0  # vLLM raises what is lower to 0.01
    top_p: PositiveFraction = 1.0
    max_tokens: Count = 1024  # tokens of a response


@dataclass(frozen=True)
class RolloutsConfig:
    num_prompts: Count = 64
    num_samples: Count = 8
