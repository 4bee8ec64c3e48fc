"""Segmenters: where one step of a response ends and the next begins. One file each.

A segmenter is a pure function of the text pieces of the response's tokens (see `token_texts`). Its
spans partition the tokens: contiguous, none empty, none left out; no tokens give no spans.
Registering it here under its config class is all the loop needs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vineppo.config.schema import (
    LinesSegmenter,
    MathSegmenter,
    PythonSegmenter,
    SegmenterConfig,
    TokensSegmenter,
)
from vineppo.own_code import OwnFunction
from vineppo.segment import lines, math
from vineppo.segment.spans import spans_from_cuts
from vineppo.segment.tokens import token_spans
from vineppo.types import StepSpan

Segmenter = Callable[[Sequence[str]], tuple[StepSpan, ...]]


def build_segmenter(config: SegmenterConfig) -> Segmenter:
    """The segmenter that `config.kind` names.

    >>> build_segmenter(LinesSegmenter("lines"))(["1+1", "\\n", "=2", "</s>"])
    (StepSpan(start=0, end=2), StepSpan(start=2, end=4))
    """
    return SEGMENTERS[type(config)](config)


def _by_text(cuts: Callable[[str], list[int]]) -> Segmenter:
    """The segmenter that cuts where `cuts` cuts the joined text."""
    return lambda token_texts_T: spans_from_cuts(token_texts_T, cuts("".join(token_texts_T)))


SEGMENTERS: dict[type, Callable[[Any], Segmenter]] = {
    LinesSegmenter: lambda _: _by_text(lines.cuts),
    MathSegmenter: lambda config: _by_text(
        partial(math.cuts, max_formula_chars=config.max_formula_chars)
    ),
    TokensSegmenter: lambda config: partial(token_spans, num_tokens=config.num_tokens),
    PythonSegmenter: lambda config: _by_text(OwnFunction(config.path, "cuts")),
}
