"""The task: its problems, how they are put to the model, and how an answer is graded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from vineppo.config.require import require, require_holding
from vineppo.config.schema.scalars import Count, Finite, Name, TimeLimit
from vineppo.errors import UserError
from vineppo.plugins import Plugin, PluginConfig
from vineppo.types import Problem, Split, predictor_key

if TYPE_CHECKING:
    from vineppo.config.schema import AnyConfig


@dataclass(frozen=True)
class TemplatePrompt:
    """`template` with `{question}` in it, tokenised with the tokenizer's special tokens."""

    kind: Literal["template"]
    template: str
    # What the prompt opens the answer with, such as "<think>\n"; added if it is not there already.
    # The answer that is graded or taught begins with it.
    response_prefix: str = ""


@dataclass(frozen=True)
class ChatPrompt:
    """The tokenizer's chat template around one user message, `template` with `{question}` in it."""

    kind: Literal["chat"]
    template: str
    system: str | None = None
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)  # enable_thinking: false
    response_prefix: str = ""  # as above


Prompt = Annotated[TemplatePrompt | ChatPrompt, Field(discriminator="kind")]


@dataclass(frozen=True)
class GradingConfig:
    """How an answer is found in a response, and the worker processes that compare it."""

    extraction: Literal["hash", "boxed", "final_answer", "answer", "last_number"]
    # FILE.py, FILE.py:NAME or module:NAME: a reward function instead of extraction and comparison.
    reward_path: Name | None = None
    num_workers: Count = 2
    time_limit_s: TimeLimit = 3.0  # of processor time, per comparison; past it: 0, and counted
    truncated_reward: Finite | None = 0.0  # of a response cut off by the budget; null: graded as is
    # A pass mark: how many of the answer's characters must be right; null: the answer is one.
    num_matching: Count | None = None


@dataclass(frozen=True, kw_only=True)
class EnvironmentConfig(PluginConfig):
    """The keys of every environment (`tasks/environments.py`)."""

    max_turn_tokens: Count  # of a turn; a longer one ends the episode as truncated

    def check(self, key: str, config: Any) -> None:
        """The rest of the config must cut, reward and value responses of several turns."""
        require(hasattr(config, "credit"), f"{key} must be null for `vineppo sft`")
        what, kind = f"for {key} of kind {self.kind!r}", config.credit.segmenter.kind
        require(kind == "turns", f"credit.segmenter.kind must be 'turns' {what}, got {kind!r}")
        nulls = {
            "reward_model": config.reward_model,
            "task.grading.reward_path": config.task.grading.reward_path,
            "task.grading.num_matching": config.task.grading.num_matching,
            "task.prompt.response_prefix": config.task.prompt.response_prefix or None,
        }
        for other, value in nulls.items():
            require(value is None, f"{other} must be null or empty {what}, which rewards")
        for name, keys in config.predictors.items():
            wrong = f"{predictor_key(name)} of kind {keys.kind!r} cannot value turns, {what}"
            require(keys.predictor.takes_turns, wrong)


TooLong = Literal["refuse", "leave_out"]  # a train problem that the model has no room for


@dataclass(frozen=True, kw_only=True)
class Task(PluginConfig):
    """Problems with checkable answers; a kind adds its keys and `load`."""

    prompt: Prompt
    too_long: TooLong = "refuse"  # a test problem that is too long is always refused
    response_template: str = "{solution}"  # what supervised fine-tuning teaches
    grading: GradingConfig
    environment: Annotated[EnvironmentConfig, Plugin("environment")] | None = None  # null: one turn
    train_path: Name | None = None
    test_path: Name | None = None
    num_test_problems: Count | None = None  # the first ones; null: all

    def load(self, split: Split) -> Sequence[Problem]:
        """The problems of a set; their ids differ, and stay the same from run to run."""
        raise NotImplementedError

    def build_tokenizer(self) -> Any:
        """The tokenizer of a new model, where the task has its own."""
        raise UserError(f"config: model.architecture must be null for task.kind {self.kind!r}")

    def check(self, key: str, config: "AnyConfig") -> None:  # noqa: ARG002
        require_holding(f"{key}.prompt.template", self.prompt.template, "{question}")
        require_holding(f"{key}.response_template", self.response_template, "{solution}")
