"""A critic that is told what the policy is not, as token ids beside the prompt.

A baseline may depend on whatever does not depend on the action given the state (arXiv:1506.02438),
so a critic may know more than the policy while training (arXiv:1710.06542). A template holds

    {answer}     the problem's true answer
    {solution}   its worked solution
    {percent}    the mean reward of its other rollouts of the iteration, times 100
    {rollouts}   some of these rollouts, each in a text for right ones or one for wrong ones

The first two are fixed with the problem. The other rollouts are drawn independently of this one
given the prompt, and stay so where one of them happens to have the same tokens. The rollout's own
return follows from its actions: it is in neither.

Only prompts become longer. Responses keep the sampled ids, here and where siblings see them, and
the columns of their tokens.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vineppo.config.require import require
from vineppo.config.schema import SeparateCritic, TrainConfig
from vineppo.config.schema.scalars import Count, Name
from vineppo.errors import UserError, naming
from vineppo.models import LoadedModel, load_tokenizer
from vineppo.rollouts import Prompt
from vineppo.tasks.data_text import as_text, encode
from vineppo.types import Problem, Rollout, TokenSequence
from vineppo.values.separate import FrozenValueModel, SeparateValueModel

_FIELDS = re.compile(r"\{(answer|solution|percent|rollouts)\}")
Piece = str | tuple[int, ...]  # text, or ids that are not tokenised again


@dataclass(frozen=True)
class RolloutsInView:
    """Other rollouts of the problem: in the text `right`, or `wrong`, around their {response}."""

    num: Count  # rollouts
    max_tokens: Count  # the last of each
    right: Name
    wrong: Name


@dataclass(frozen=True)
class ViewConfig:
    """The text that the critic sees beside prompt and response."""

    template: Name  # with some of {answer}, {solution}, {percent} and {rollouts}
    place: Literal["before_prompt", "before_response"] = "before_prompt"
    rollouts: RolloutsInView | None = None  # null if {rollouts} is not in the template

    @property
    def has_siblings(self) -> bool:
        """It tells of the problem's other rollouts."""
        return "{percent}" in self.template or "{rollouts}" in self.template

    def check(self, key: str, config: TrainConfig) -> None:
        """Refuses a view that shows nothing, or a part of the rollout that it values."""
        shown, num_samples = self.rollouts, config.rollouts.num_samples
        fields = [f"{{{name}}}" for name in ("answer", "solution", "percent", "rollouts")]
        require(
            any(field in self.template for field in fields),
            f"{key}.template must contain one of {', '.join(fields)}, got {self.template!r}",
        )
        require(
            (shown is not None) == ("{rollouts}" in self.template),
            f"{key}.rollouts must be null where {key}.template has no {{rollouts}}, and else a "
            f"table, got {self.template!r}",
        )
        if not self.has_siblings:
            return
        needed = 2 if shown is None else shown.num + 1
        require(
            num_samples >= needed,
            f"rollouts.num_samples must be at least {needed} for {key} (it shows a problem's other "
            f"rollouts), got {num_samples}",
        )
        require(
            not config.credit.shares_tokens,
            f"credit.kind must not be {config.credit.kind!r} for {key} (the other rollouts share "
            "this one's actions)",
        )
        for name in ("right", "wrong") if shown is not None else ():
            text = getattr(shown, name)
            require(
                text.count("{response}") == 1,
                f"{key}.rollouts.{name} must contain {{response}} once, got {text!r}",
            )


class Sibling(NamedTuple):
    """Another rollout of a problem: its ids without the one that ended it, and its reward."""

    ids: tuple[int, ...]
    reward: float


@dataclass(frozen=True)
class View:
    """The view of the critic at `key` of the config."""

    config: ViewConfig
    tokenizer: Any
    key: str

    def of(self, rollouts: Sequence[Rollout], iteration: Sequence[Rollout]) -> list[TokenSequence]:
        """The rollouts as the critic sees them; siblings come from the whole `iteration`.

        With the template "{answer}\\n" before the prompt, a prompt <bos> 4 + 6 ? \\n of the answer
        "40" becomes <bos> 4 0 \\n 4 + 6 ? \\n.
        """
        groups = defaultdict(list)
        for rollout in iteration if self.config.has_siblings else ():
            groups[rollout.problem.id].append(rollout)
        return [
            TokenSequence(
                self._prompt_ids(r.prompt_ids, r.problem, siblings_of(r, groups[r.problem.id])),
                r.response_ids,
                tokens_T=r.tokens_T,
                turns=r.turns,
            )
            for r in rollouts
        ]

    def check(self, prompts_P: Sequence[Prompt], max_tokens: int, positions: int | None) -> None:
        """Raises `UserError` for a problem without a solution, where the view shows it, or with
        more tokens in prompt, view and longest response than the critic's `positions`.
        """
        shown = self.config.rollouts
        most, num = (shown.max_tokens, shown.num) if shown is not None else (0, 1)
        for prompt in prompts_P:
            for reward in (1.0, 0.0) if shown is not None else (1.0,):
                longest = [Sibling((0,) * most, reward)] * num
                prompt_ids = self._prompt_ids(prompt.token_ids, prompt.problem, longest)
                if positions is not None and len(prompt_ids) + max_tokens > positions:
                    raise UserError(
                        f"config: {self.key}.view must leave prompt, view and response at most the "
                        f"critic's {positions} tokens, got {len(prompt_ids) + max_tokens} with "
                        f"problem {prompt.problem.id}"
                    )

    def _prompt_ids(
        self, prompt_ids: tuple[int, ...], problem: Problem, siblings: Sequence[Sibling]
    ) -> tuple[int, ...]:
        pieces = self._pieces(problem, siblings)
        view_ids = tuple(chain.from_iterable(self._encode(pieces)))
        begins = len(prompt_ids)
        if self.config.place == "before_prompt":  # a text still begins as the critic knows it
            begins = int(prompt_ids[0] == self.tokenizer.bos_token_id)
        return (*prompt_ids[:begins], *view_ids, *prompt_ids[begins:])

    def _encode(self, pieces: Iterator[Piece]) -> Iterator[Sequence[int]]:
        """Neighbouring texts as one, so that the tokenizer may join them."""
        for is_text, run in groupby(pieces, key=lambda piece: isinstance(piece, str)):
            if is_text:
                yield encode(self.tokenizer, "".join(map(str, run)))
            else:
                yield from (ids for ids in run if not isinstance(ids, str))

    def _pieces(self, problem: Problem, siblings: Sequence[Sibling]) -> Iterator[Piece]:
        for number, part in enumerate(_FIELDS.split(self.config.template)):
            if number % 2 == 0:
                yield part
            elif part == "answer":
                yield self._text(problem.answer, problem)
            elif part == "solution":
                if problem.solution is None:
                    raise UserError(
                        f"config: {self.key}.view.template must do without {{solution}} where a "
                        f"problem has none, got {problem.id}"
                    )
                yield self._text(problem.solution, problem)
            elif part == "percent":
                mean = sum(sibling.reward for sibling in siblings) / max(len(siblings), 1)
                yield f"{100 * mean:.0f}"
            else:
                yield from _labelled(self.config, siblings)

    def _text(self, text: str, problem: Problem) -> str:
        with naming(f"problem {problem.id}"):
            return as_text(self.tokenizer, text)


def _labelled(config: ViewConfig, siblings: Sequence[Sibling]) -> Iterator[Piece]:
    shown = config.rollouts
    assert shown is not None, "checked with the config"
    for sibling in siblings[: shown.num]:
        template = shown.right if sibling.reward > 0.5 else shown.wrong
        before, after = template.split("{response}")
        yield from (before, sibling.ids[-shown.max_tokens :], after)


def siblings_of(rollout: Rollout, group_G: Sequence[Rollout]) -> list[Sibling]:
    """The problem's other rollouts, in turn from the next one on: number 1 of 4 has 2, 3, 0."""
    index = rollout.rollout_index
    others = [other for other in group_G if other.rollout_index != index]
    others.sort(key=lambda other: (other.rollout_index < index, other.rollout_index))
    return [
        Sibling(r.response_ids[:-1] if r.finish_reason == "stop" else r.response_ids, r.reward)
        for r in others
    ]


class Informed(SeparateValueModel):
    """A critic with a view, which trains on rollouts as it sees them."""

    @dataclass(frozen=True, kw_only=True)
    class Config(SeparateCritic):
        view: ViewConfig

        def check(self, key: str, config: TrainConfig) -> None:
            super().check(key, config)
            self.view.check(f"{key}.view", config)

    def __init__(self, name: str, config: TrainConfig, critic: Any, loaded: LoadedModel) -> None:
        super().__init__(name, config, critic, loaded)
        self.view = View(critic.view, loaded.tokenizer, self.key)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> FrozenValueModel | None:
        return FrozenInformed.at_checkpoint(name, config, options, directory)

    def check_problems(self, prompts_P: Sequence[Prompt]) -> None:
        positions = getattr(self.hf_model.config, "max_position_embeddings", None)
        self.view.check(prompts_P, self.config.max_valued_tokens, positions)

    def seen(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> list[TokenSequence]:
        return self.view.of(branches, rollouts)


class FrozenInformed(FrozenValueModel):
    """The same as a checkpoint has it, or as training starts."""

    def __init__(self, name: str, config: TrainConfig, critic: Any, path: str | None) -> None:
        super().__init__(name, config, critic, path)
        tokenizer = load_tokenizer(path or config.model.path, f"{self.key}.path")
        self.view = View(critic.view, tokenizer, self.key)

    def seen(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> list[TokenSequence]:
        return self.view.of(branches, rollouts)
