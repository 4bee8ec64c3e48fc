"""Segmenters: where one step of a response ends and the next begins.

A segmenter is a pure function of the text pieces of the response's tokens (see `token_texts`), of
their sampled log-probabilities and, where it asks for them, of the policy's entropies. Its spans
partition the tokens: contiguous, none empty, none left out; no tokens give no spans. Registering it
here under its config class is all the loop needs.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import log
from typing import Any, Protocol

from vineppo.config.schema import (
    CutpointsSegmenter,
    LinesSegmenter,
    MathSegmenter,
    MergedSegmenter,
    PythonSegmenter,
    SegmenterConfig,
    TokensSegmenter,
    TrainConfig,
    TurnsSegmenter,
)
from vineppo.errors import UserError
from vineppo.own_code import OwnSegmenter
from vineppo.segment import math
from vineppo.segment.token_texts import spans_from_cuts, spans_from_starts, token_texts
from vineppo.types import Rollout, StepSpan


class Segmenter(Protocol):
    def __call__(
        self,
        token_texts_T: Sequence[str],
        logprobs_T: Sequence[float] | None = None,
        entropies_T: Sequence[float] | None = None,
        /,
    ) -> tuple[StepSpan, ...]:
        """Spans of the steps. `logprobs_T` are the engine's, after temperature and top_p.

        `entropies_T` are the tempered policy's before each token, in nats. None where the caller
        has none: a segmenter that needs them raises `UserError`.
        """


def build_segmenter(config: SegmenterConfig) -> Segmenter:
    """The segmenter that `config.kind` names.

    >>> build_segmenter(LinesSegmenter("lines"))(["1+1", "\\n", "=2", "</s>"])
    (StepSpan(start=0, end=2), StepSpan(start=2, end=4))
    """
    return SEGMENTERS[type(config)](config)


def needs_entropies(config: TrainConfig) -> bool:
    """Whether steps or cuts go by the policy's entropies, which take a pass of it."""
    by = config.credit.segmenter
    is_own = isinstance(by, PythonSegmenter) and OwnSegmenter(by.path).needs_entropies
    return is_own or config.cuts_by_entropy


def steps_of(rollout: Rollout, segmenter: Segmenter, tokenizer: Any) -> tuple[StepSpan, ...]:
    """By its log-probabilities, and its column "entropies" where it has one.

    With an environment a step is a turn and the answer to it.
    """
    if rollout.turns:
        edges = [*(turn.start for turn in rollout.turns), len(rollout.response_ids)]
        return tuple(StepSpan(start, end) for start, end in pairwise(edges))
    texts_T = token_texts(tokenizer, rollout.response_ids)
    return segmenter(texts_T, rollout.logprobs_T, rollout.tokens_T.get("entropies"))


def _by_text(cuts: Callable[[str], Sequence[int]]) -> Segmenter:
    """The segmenter that cuts where `cuts` cuts the joined text."""
    return lambda token_texts_T, *_: spans_from_cuts(token_texts_T, cuts("".join(token_texts_T)))


# Possessive, so that a newline followed by many blanks is read once.
_NEWLINE_RUN = re.compile(r"\n(?:[ \t\r]*+\n)*+")
_ANSWER_LINE = re.compile(r"[ \t]*####")


def line_cuts(text: str) -> list[int]:
    """Positions after each run of newlines: VinePPO's rule for GSM8K (arXiv:2410.01679).

    Blank lines form no step of their own. A line that begins with `####` belongs to the step before
    it: the final answer restates that step and is no reasoning of its own. Newlines before the
    first word belong to the first step, those after the last word to the last.

    >>> line_cuts("2+3=5\\n\\n5*2=10\\n#### 10")
    [7]

    Only the cut before `5*2=10` is left: the blank line ends the first step, and the answer line
    joins the second.
    """
    first_word, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return [
        match.end()
        for match in _NEWLINE_RUN.finditer(text)
        if first_word < match.end() < end and not _ANSWER_LINE.match(text, match.end())
    ]


def _by_number(
    num_tokens: int, token_texts_T: Sequence[str], *_: Sequence[float] | None
) -> tuple[StepSpan, ...]:
    """Spans of `num_tokens` tokens each, whatever they say; the last one holds what is left."""
    total = len(token_texts_T)
    return tuple(
        StepSpan(start, min(start + num_tokens, total)) for start in range(0, total, num_tokens)
    )


def by_cutpoints(
    config: CutpointsSegmenter,
    token_texts_T: Sequence[str],
    logprobs_T: Sequence[float] | None = None,
    *_: Sequence[float] | None,
) -> tuple[StepSpan, ...]:
    """Steps of `num_cutpoints` cutpoints each, tokens with π(a_t | s_t) < `max_prob`.

    A step begins before its first cutpoint, as in the code of Segment Policy Optimization
    (arXiv:2505.23564); tokens before the first cutpoint of all are a step of their
    own. One step looks one token ahead: s_t is a boundary by the probability of a_t.

    >>> config = CutpointsSegmenter("cutpoints", max_prob=0.9, num_cutpoints=2)
    >>> by_cutpoints(config, ["a"] * 6, [0.0, -1.0, -1.0, 0.0, -1.0, 0.0])
    (StepSpan(start=0, end=1), StepSpan(start=1, end=4), StepSpan(start=4, end=6))
    """
    if logprobs_T is None:
        raise UserError("credit.segmenter.kind 'cutpoints' needs log-probabilities, none were kept")
    cutpoints = [t for t, logprob in enumerate(logprobs_T) if logprob < log(config.max_prob)]
    return spans_from_starts(len(token_texts_T), cutpoints[:: config.num_cutpoints])


def by_merging(
    config: MergedSegmenter,
    token_texts_T: Sequence[str],
    logprobs_T: Sequence[float] | None = None,
    *_: Sequence[float] | None,
) -> tuple[StepSpan, ...]:
    """Steps of `config.segmenter`, without the boundary after a sure step.

    A step is sure where all its tokens had π(a_t | s_t) > `max_prob`: it decided nothing, so that
    the value after it is hardly another than before it, |V(s_{i+1}) − V(s_i)| ≤ 1 − Π π for rewards
    in [0, 1], and the state after it needs no continuations of its own. It joins the step *after*
    it: whether a boundary stays is then known from the tokens before it, and differences of values
    are unbiased as they are for the inner segmenter (tests/credit/test_vine.py). To the step before
    it could join only by dropping the boundary in front, which would look ahead, as cutpoints do.

    >>> config = MergedSegmenter("merged", 0.9, TokensSegmenter("tokens", 2))
    >>> by_merging(config, ["a"] * 6, [0.0, -1.0, 0.0, 0.0, -1.0, 0.0])
    (StepSpan(start=0, end=2), StepSpan(start=2, end=6))
    """
    if logprobs_T is None:
        raise UserError("credit.segmenter.kind 'merged' needs log-probabilities, none were kept")
    spans = build_segmenter(config.segmenter)(token_texts_T)
    least = log(config.max_prob)
    starts = [
        after.start
        for span, after in pairwise(spans)
        if min(logprobs_T[span.start : span.end]) <= least
    ]
    return spans_from_starts(len(token_texts_T), starts)


def _by_own_function(
    own: OwnSegmenter,
    token_texts_T: Sequence[str],
    logprobs_T: Sequence[float] | None = None,
    entropies_T: Sequence[float] | None = None,
) -> tuple[StepSpan, ...]:
    """By `starts(token_texts, logprobs)` of the user's file, or else by its `cuts(text)`."""
    function = own.load()
    if function.name == "cuts":
        return spans_from_cuts(token_texts_T, function("".join(token_texts_T)))
    given = {"log-probabilities": logprobs_T}
    if own.needs_entropies:
        given["entropies"] = entropies_T
    for what, numbers_T in given.items():
        if numbers_T is None:
            raise UserError(f"{own.path}: starts needs {what}, and none were kept here")
    return spans_from_starts(len(token_texts_T), function(token_texts_T, *given.values()))


SEGMENTERS: dict[type, Callable[[Any], Segmenter]] = {
    LinesSegmenter: lambda _: _by_text(line_cuts),
    MathSegmenter: lambda config: _by_text(
        partial(math.cuts, max_formula_chars=config.max_formula_chars)
    ),
    TokensSegmenter: lambda config: partial(_by_number, config.num_tokens),
    CutpointsSegmenter: lambda config: partial(by_cutpoints, config),
    MergedSegmenter: lambda config: partial(by_merging, config),
    TurnsSegmenter: lambda _: lambda token_texts_T, *_: spans_from_starts(len(token_texts_T), ()),
    PythonSegmenter: lambda config: partial(_by_own_function, OwnSegmenter(config.path)),
}
