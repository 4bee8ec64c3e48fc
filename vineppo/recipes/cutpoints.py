"""Steps between tokens that the policy was unsure of."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from vineppo.config.schema.scalars import Count, PositiveFraction
from vineppo.segment import Segmenter, spans_from_starts
from vineppo.types import StepSpan


@dataclass(frozen=True)
class CutpointsSegmenter(Segmenter):
    """Steps of `num_cutpoints` cutpoints each, tokens with π(a_t | s_t) < `max_prob`.

    A step begins before its first cutpoint, as in the code of Segment Policy Optimization
    (arXiv:2505.23564); tokens before the first cutpoint of all are a step of their
    own. One step looks one token ahead: s_t is a boundary by the probability of a_t.

    >>> segmenter = CutpointsSegmenter("cutpoints", max_prob=0.9, num_cutpoints=2)
    >>> segmenter.spans(["a"] * 6, [0.0, -1.0, -1.0, 0.0, -1.0, 0.0])
    (StepSpan(start=0, end=1), StepSpan(start=1, end=4), StepSpan(start=4, end=6))
    """

    max_prob: PositiveFraction
    num_cutpoints: Count

    def spans(
        self,
        token_texts_T: Sequence[str],
        logprobs_T: Sequence[float] | None = None,
        *_: Sequence[float] | None,
    ) -> tuple[StepSpan, ...]:
        assert logprobs_T is not None, "the engine's"
        cutpoints = [t for t, logprob in enumerate(logprobs_T) if logprob < log(self.max_prob)]
        return spans_from_starts(len(token_texts_T), cutpoints[:: self.num_cutpoints])
