"""Segmenters: where one step of a response ends and the next begins.

The spans of a segmenter partition the tokens: contiguous, none empty, none left out; no tokens give
no spans. A segmenter is a plug-in (`vineppo/plugins.py`) without state.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from pydantic import Field
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from vineppo.config.require import require
from vineppo.errors import UserError
from vineppo.plugins import PluginConfig
from vineppo.types import Rollout, StepSpan

# Possessive, so that a newline followed by many blanks is read once.
_NEWLINE_RUN = re.compile(r"\n(?:[ \t\r]*+\n)*+")
_ANSWER_LINE = re.compile(r"[ \t]*####")


@dataclass(frozen=True)
class Segmenter(PluginConfig):
    """A segmenter and its keys. One that looks at the text alone is a `TextSegmenter`."""

    reads_entropies: ClassVar[bool] = False  # they take a pass of the policy

    def spans(
        self,
        token_texts_T: Sequence[str],
        logprobs_T: Sequence[float] | None = None,
        entropies_T: Sequence[float] | None = None,
        /,
    ) -> tuple[StepSpan, ...]:
        """The steps of a response, by the text pieces of its tokens (`token_texts`).

        `logprobs_T` are the engine's, after temperature and cuts. `entropies_T` are the tempered
        policy's before each token, in nats; a segmenter that `reads_entropies` is sure to get them.
        """
        raise NotImplementedError

    def expected(self, num_steps: float) -> float:
        """Steps of a response that its text has so many of: `vineppo estimate` asks."""
        return num_steps


class TextSegmenter(Segmenter):
    """Cuts the text of a response, special tokens included."""

    def cuts(self, text: str) -> Sequence[int]:
        """The places in `text` where a step begins, in ascending order."""
        raise NotImplementedError

    def spans(
        self, token_texts_T: Sequence[str], *_: Sequence[float] | None
    ) -> tuple[StepSpan, ...]:
        return spans_from_cuts(token_texts_T, self.cuts("".join(token_texts_T)))


def spans_from_starts(num_tokens: int, starts: Iterable[int]) -> tuple[StepSpan, ...]:
    """Token spans of the steps that begin at the tokens `starts`, and at token 0.

    The last token never is a step by itself: the end-of-sequence token belongs to the step before.

    >>> spans_from_starts(6, [2, 5])
    (StepSpan(start=0, end=2), StepSpan(start=2, end=6))
    """
    inner = {start for start in starts if 0 < start < num_tokens - 1}
    edges = sorted({0, num_tokens, *inner})
    return tuple(StepSpan(start, end) for start, end in pairwise(edges))


def spans_from_cuts(token_texts_T: Sequence[str], cuts: Iterable[int]) -> tuple[StepSpan, ...]:
    """Token spans of the steps that begin at the character positions `cuts`, in ascending order.

    A token that straddles a cut stays with the step before it: a state is a prefix of the sampled
    ids. Cuts at 0 or past the text change nothing.

    >>> spans_from_cuts(["So", ".\\n", "x", " =", " 3", "</s>"], [4])
    (StepSpan(start=0, end=2), StepSpan(start=2, end=6))
    """
    starts = []
    position, token = 0, 0
    for cut in cuts:
        while token < len(token_texts_T) and position < cut:
            position += len(token_texts_T[token])
            token += 1
        starts.append(token)
    return spans_from_starts(len(token_texts_T), starts)


@dataclass(frozen=True)
class LinesSegmenter(TextSegmenter):
    """One step a line: VinePPO's rule for GSM8K (arXiv:2410.01679).

    Blank lines form no step. A line that begins with `####` belongs to the step that it restates.

    >>> LinesSegmenter("lines").cuts("2+3=5\\n\\n5*2=10\\n#### 10")
    [7]
    """

    def cuts(self, text: str) -> Sequence[int]:
        first_word, end = len(text) - len(text.lstrip()), len(text.rstrip())
        return [
            match.end()
            for match in _NEWLINE_RUN.finditer(text)
            if first_word < match.end() < end and not _ANSWER_LINE.match(text, match.end())
        ]


@dataclass(frozen=True)
class TokensSegmenter(Segmenter):
    """One step every `num_tokens` tokens; the last one holds what is left."""

    num_tokens: Annotated[int, Field(ge=1, le=10**7)]  # `Count`, whose package imports this one

    def spans(
        self, token_texts_T: Sequence[str], *_: Sequence[float] | None
    ) -> tuple[StepSpan, ...]:
        edges = [*range(0, len(token_texts_T), self.num_tokens), len(token_texts_T)]
        return tuple(StepSpan(start, end) for start, end in pairwise(edges))


@dataclass(frozen=True)
class TurnsSegmenter(Segmenter):
    """One step a turn of the policy, with the environment's answer to it (`task.environment`)."""

    def check(self, key: str, config: Any) -> None:
        is_there = config.task.environment is not None
        require(is_there, f"task.environment must not be null for {key}.kind {self.kind!r}")


def steps_of(rollout: Rollout, segmenter: Segmenter, tokenizer: Any) -> tuple[StepSpan, ...]:
    """The steps of a rollout; with an environment, the turns, each with the answer to it."""
    if rollout.turns:
        edges = [*(turn.start for turn in rollout.turns), len(rollout.response_ids)]
        return tuple(StepSpan(start, end) for start, end in pairwise(edges))
    texts_T = token_texts(tokenizer, rollout.response_ids)
    return segmenter.spans(texts_T, rollout.logprobs_T, rollout.tokens_T.get("entropies"))


def token_texts(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """One text piece per id, special tokens included; about 1 µs a token.

    `tokenizer` is a fast one of Hugging Face, or a bare `tokenizers.Tokenizer`.

    Joined, they are `tokenizer.decode(ids)` without any clean-up, whenever that text is complete
    UTF-8. A character of several tokens comes with the last of them: under a byte-level tokenizer,
    the ids of "a 😀" give `["a", " ", "", "", "", "😀"]`. Bytes that form no character give "" or
    U+FFFD. Raises `UserError` for a tokenizer without a `tokenizers` backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise UserError(
            f"model.path: the tokenizer must be a fast one (tokenizer.json), got "
            f"{type(tokenizer).__name__}"
        )
    pieces = []
    stream = DecodeStream(skip_special_tokens=False)
    for token_id in ids:
        try:
            piece = stream.step(backend, token_id)
        except Exception as error:
            # A byte-fallback decoder reads a run of byte tokens as a whole, so a byte that breaks
            # UTF-8 turns characters that the stream has already given out into U+FFFD.
            if "Invalid prefix" not in str(error):
                raise
            stream = DecodeStream(skip_special_tokens=False)
            piece = stream.step(backend, token_id)
        pieces.append(piece or "")
    return pieces


@lru_cache(maxsize=4)
def _special_ids(tokenizer: Any) -> frozenset[int]:
    return frozenset(i for i, token in tokenizer.added_tokens_decoder.items() if token.special)


def response_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text of a response, by the fast backend, without the special tokens at its ends.

    One between two others is U+FFFD, so that the digits on its sides do not become one number:
    "4<pad>0<eos>" gives "4\ufffd0".
    """
    backend, special = tokenizer.backend_tokenizer, _special_ids(tokenizer)
    kept = [place for place, token_id in enumerate(ids) if token_id not in special]
    if not kept:
        return ""
    first, end = kept[0], kept[-1] + 1
    breaks = [place for place in range(first, end) if ids[place] in special]
    runs = pairwise([first - 1, *breaks, end])
    return "\ufffd".join(backend.decode(ids[before + 1 : after]) for before, after in runs)
