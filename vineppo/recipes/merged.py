"""The steps of another segmenter, without the boundaries after sure steps, and at most so many."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Annotated

from vineppo.config.schema.scalars import Count, PositiveFraction
from vineppo.plugins import Plugin
from vineppo.segment import Segmenter, spans_from_starts
from vineppo.types import StepSpan


@dataclass(frozen=True)
class MergedSegmenter(Segmenter):
    """The steps of `segmenter`; one with more than `max_prob` on all tokens joins the next.

    Such a step decided nothing: the value hardly changes, |V(s_{i+1}) − V(s_i)| ≤ 1 − Π π for
    rewards in [0, 1]. So the state after it needs no continuations. It joins the step *after* it:
    the tokens before a boundary say whether the boundary stays, and differences of values are
    unbiased as they are for `segmenter`. Joining the step before it would look ahead, as cutpoints
    do.

    With 0.9, steps of two tokens and probabilities 1, 0.4, 1, 1, 0.4, 1 the second joins the third.

    `max_steps` bounds the steps of a long response, and so its states: of the boundaries that are
    left, the least sure ones stay, by the least likely token of the step before each. It looks at
    no return, but at the whole response: a boundary goes where more doubtful ones follow. Where how
    doubtful a response is says something of its reward, differences of values are biased.
    """

    segmenter: Annotated[Segmenter, Plugin("segmenter")]
    max_prob: PositiveFraction = 1.0
    max_steps: Count | None = None  # null: as many as the response has

    @property
    def reads_entropies(self) -> bool:  # type: ignore[override]
        return self.segmenter.reads_entropies

    def spans(
        self,
        token_texts_T: Sequence[str],
        logprobs_T: Sequence[float] | None = None,
        entropies_T: Sequence[float] | None = None,
    ) -> tuple[StepSpan, ...]:
        assert logprobs_T is not None, "the engine's"
        least = log(self.max_prob)
        spans = self.segmenter.spans(token_texts_T, logprobs_T, entropies_T)
        behind = [
            (doubt, after.start)
            for span, after in pairwise(spans)
            if (doubt := min(logprobs_T[span.start : span.end])) <= least
        ]
        if self.max_steps is not None:
            behind = sorted(behind)[: self.max_steps - 1]
        return spans_from_starts(len(token_texts_T), [start for _, start in behind])

    def expected(self, num_steps: float) -> float:
        num_steps = self.segmenter.expected(num_steps)
        return num_steps if self.max_steps is None else min(num_steps, self.max_steps)
