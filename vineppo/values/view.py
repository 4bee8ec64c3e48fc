"""What a critic is told that the policy is not, as token ids beside the prompt.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from vineppo.config.schema import ViewConfig
from vineppo.errors import UserError, naming
from vineppo.tasks.data_text import as_text, encode
from vineppo.types import Problem, Rollout, TokenSequence

if TYPE_CHECKING:
    from vineppo.rollouts import Prompt

_FIELDS = re.compile(r"\{(answer|solution|percent|rollouts)\}")
Piece = str | tuple[int, ...]  # text, or ids that are not tokenised again


class Sibling(NamedTuple):
    """Another rollout of a problem: its ids without the one that ended it, and its reward."""

    ids: tuple[int, ...]
    reward: float


@dataclass(frozen=True)
class View:
    """The view of the critic at `key` of the config; `config` null: prompt and response alone."""

    config: ViewConfig | None
    tokenizer: Any
    key: str

    def of(
        self, rollouts: Sequence[Rollout], iteration: Sequence[Rollout]
    ) -> Sequence[TokenSequence]:
        """The rollouts as the critic sees them; siblings are those of the whole `iteration`.

        With the template "{answer}\\n" before the prompt, a prompt <bos> 4 + 6 ? \\n of the answer
        "40" becomes <bos> 4 0 \\n 4 + 6 ? \\n.
        """
        if self.config is None:
            return rollouts
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

    def check(self, prompts_P: Sequence["Prompt"], max_tokens: int, positions: int | None) -> None:
        """Raises `UserError` for a problem without a solution, where the view shows it, and for
        one whose prompt, view and longest response are more than the critic's `positions`.
        """
        if self.config is None:
            return
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
        assert self.config is not None, "asked before"
        pieces = self._pieces(self.config, problem, siblings)
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

    def _pieces(
        self, config: ViewConfig, problem: Problem, siblings: Sequence[Sibling]
    ) -> Iterator[Piece]:
        for number, part in enumerate(_FIELDS.split(config.template)):
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
                yield from _labelled(config, siblings)

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
    own = rollout.rollout_index
    others = [other for other in group_G if other.rollout_index != own]
    others.sort(key=lambda other: (other.rollout_index < own, other.rollout_index))
    return [
        Sibling(r.response_ids[:-1] if r.finish_reason == "stop" else r.response_ids, r.reward)
        for r in others
    ]
