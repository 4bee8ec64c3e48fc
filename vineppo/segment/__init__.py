"""Segmenters: where one step of a response ends and the next begins.

The spans of a segmenter partition the tokens: contiguous, none empty, none left out; no tokens give
no spans. A segmenter is a plug-in (`vineppo/plugins.py`) without state.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from vineppo.plugins import PluginConfig
from vineppo.types import StepSpan


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
