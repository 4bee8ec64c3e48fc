"""A language model's yes/no value: asked at every step boundary whether the answer will be right.

    V(s) = P(yes | s, question) / (P(yes | s, question) + P(no | s, question))
         = σ((w_yes − w_no)ᵀ h)

with h the last hidden state after the question and w the rows of the model's output matrix. So it
is a value model with a head that starts as w_yes − w_no: before any training it is the zero-shot
prompt. As a critic it learns by cross-entropy from the reward. A language model that says how
likely it is right: P(True), arXiv:2207.05221.

As a baseline it is fair: it looks at the state alone. As Q̂ it is biased as far as it is wrong. Each
state passes as a separate sequence: about S/2 responses a rollout, with the gradient three times
that. Nothing is sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from vineppo.config.require import require
from vineppo.config.schema import (
    CrossEntropy,
    Name,
    SeparateCritic,
    SquaredError,
    TrainConfig,
)
from vineppo.errors import UserError
from vineppo.models import LoadedModel, load_model, load_tokenizer
from vineppo.rollouts import Prompt
from vineppo.tasks.data_text import encode
from vineppo.types import Rollout, TokenSequence
from vineppo.values import ValuePredictor
from vineppo.values.heads import check_size
from vineppo.values.separate import FrozenValueModel, SeparateValueModel, ValueModel

PROBABILITY = CrossEntropy("cross_entropy", 0, 1)


class AskingModel(ValueModel):
    """One that passes the states before the steps, a question after each."""

    gives: Literal["tokens", "steps"] = "steps"
    question: "Question"

    def check_problems(self, prompts_P: Sequence[Prompt]) -> None:
        positions = getattr(self.hf_model.config, "max_position_embeddings", None)
        longest = self.config.sampling.max_tokens + len(self.question.ids)
        most = max((len(prompt.token_ids) for prompt in prompts_P), default=0) + longest
        if positions is not None and most > positions:
            raise UserError(
                f"config: {self.key}.question must leave prompt, response and question at most the "
                f"model's {positions} tokens, got {most}"
            )

    def seen(
        self,
        branches: Sequence[Rollout],
        rollouts: Sequence[Rollout],  # noqa: ARG002
    ) -> list[TokenSequence]:
        """State and question as the prompt, "yes" as a response; its columns where they are known.

        Two steps of a response "4+6=0 ; done" make two sequences: "4+6?" and "4+6? 4+6=0 ;", with
        the question behind both.
        """
        return [
            TokenSequence(
                (*branch.prompt_ids, *branch.prefix_ids(step), *self.question.ids),
                (self.question.yes,),
                tokens_T=self._columns(branch, step),
            )
            for branch in branches
            for step in range(len(branch.spans_S))
        ]

    def _columns(self, rollout: Rollout, step: int) -> dict[str, Sequence[float]]:
        values_S = rollout.steps_S.get(self.column)
        if values_S is None:
            return {}
        return {self.column: (values_S[step],), f"targets/{self.name}": (rollout.reward,)}

    def set_values(self, rollouts: Sequence[Rollout], values: Sequence[Sequence[float]]) -> None:
        """`values` are of the states of all rollouts, one after another, a number each."""
        of_states = iter(values)
        by_rollout = [[next(of_states)[0] for _ in rollout.spans_S] for rollout in rollouts]
        super().set_values(rollouts, by_rollout)


class YesNo(AskingModel, SeparateValueModel):
    """One that learns by cross-entropy from the rewards.

    The head starts as the difference of the two tokens' output rows, whatever `head_init` says.
    """

    takes_turns = False

    @dataclass(frozen=True, kw_only=True)
    class Config(SeparateCritic):
        loss: Annotated[SquaredError | CrossEntropy, Field(discriminator="kind")] = PROBABILITY
        # After the state, in the model's words.
        question: Name = "\n\nIs this going to end with the right answer? Answer Yes or No:"
        yes: Name = " Yes"  # each one token
        no: Name = " No"
        trained: bool = False  # by cross-entropy on the rewards; false: zero-shot

        @property
        def learns(self) -> bool:
            return self.trained

        def check(self, key: str, config: TrainConfig) -> None:
            super().check(key, config)
            require(
                self.learns_from is None,
                f"{key}.learns_from must be null for kind {self.kind!r} (it learns rewards), got "
                f"{self.learns_from}",
            )
            require(
                self.loss.bounds == (0, 1),
                f"{key}.loss must be of kind 'cross_entropy' from 0 to 1, as a probability is, got "
                f"{self.loss}",
            )

    def __init__(self, name: str, config: TrainConfig, critic: Any, loaded: LoadedModel) -> None:
        super().__init__(name, config, critic, loaded)
        self.question = Question(critic, loaded.tokenizer, self.key)
        self.question.start(self.hf_model, config)

    @classmethod
    def build(
        cls, name: str, config: TrainConfig, options: Any, loaded: LoadedModel | None
    ) -> ValuePredictor:
        if options.trained:
            return super().build(name, config, options, loaded)
        return ZeroShot(name, config, options, loaded)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> ValuePredictor | None:
        return ZeroShot.at_checkpoint(name, config, options, directory)

    def prepare_update(self, rollouts: Sequence[Rollout]) -> None:
        """The targets are the rewards."""


class ZeroShot(AskingModel, FrozenValueModel):
    """One that never learns, or as a checkpoint has it: `source` is then its folder."""

    def __init__(
        self, name: str, config: TrainConfig, critic: Any, source: LoadedModel | str | None
    ) -> None:
        path = source if isinstance(source, str) else None
        super().__init__(name, config, critic, path)
        if isinstance(source, LoadedModel):
            num_ids = source.engine_model.num_token_ids
            check_size(self.hf_model, num_ids, config.engine.max_model_len)
        tokenizer = load_tokenizer(path or critic.path or config.model.path, f"{self.key}.path")
        self.question = Question(critic, tokenizer, self.key)
        if path is None:
            self.question.start(self.hf_model, config)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> FrozenValueModel | None:
        return super().at_checkpoint(name, config, options, directory if options.trained else None)


class Question:
    """The token ids of the question and of its two answers.

    Raises `UserError` where an answer is not one token, or both are the same.
    """

    def __init__(self, critic: Any, tokenizer: Any, key: str) -> None:
        self._critic = critic
        self.ids = encode(tokenizer, critic.question)
        answers = {name: encode(tokenizer, getattr(critic, name)) for name in ("yes", "no")}
        for name, answer_ids in answers.items():
            if len(answer_ids) != 1:
                raise UserError(
                    f"config: {key}.{name} must be one token of the model's tokenizer, got "
                    f"{len(answer_ids)} for {getattr(critic, name)!r}"
                )
        (self.yes,), (self.no,) = answers.values()
        if self.yes == self.no:
            raise UserError(f"config: {key}.no must be another token than {key}.yes")

    def start(self, value_model: Any, config: TrainConfig) -> None:
        """Makes the head w_yes − w_no, except a classifier's, which was trained.

        Raises `UserError` for a model with logits that are not the products with these rows alone.
        """
        path = self._critic.path or config.model.path
        if (value_model.config.architectures or [""])[0].endswith("ForSequenceClassification"):
            return
        language_model = load_model(path, config.model.dtype, config.model.attention).model
        head = language_model.get_output_embeddings()
        odd = [
            key
            for key in ("logit_scale", "logits_scaling", "final_logit_softcapping")
            if getattr(language_model.config, key, None) not in (None, 1, 1.0)
        ] + ["a bias of the output"] * (getattr(head, "bias", None) is not None)
        if odd:
            raise UserError(f"model {path}: a yes/no value does not support {odd[0]}")
        rows_VH = head.weight
        with torch.no_grad():
            value_model.score.weight.copy_(rows_VH[self.yes] - rows_VH[self.no])
