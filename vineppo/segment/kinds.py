"""The segmenters of the core: by lines, sentences and formulas, number of tokens, and turns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from vineppo.config.require import require
from vineppo.config.schema.scalars import Count
from vineppo.segment import Segmenter, TextSegmenter, math
from vineppo.types import StepSpan

# Possessive, so that a newline followed by many blanks is read once.
_NEWLINE_RUN = re.compile(r"\n(?:[ \t\r]*+\n)*+")
_ANSWER_LINE = re.compile(r"[ \t]*####")


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
class MathSegmenter(TextSegmenter):
    """Sentences, lines, and the parts of formulas longer than `max_formula_chars`."""

    max_formula_chars: Count

    def cuts(self, text: str) -> Sequence[int]:
        return math.cuts(text, self.max_formula_chars)


@dataclass(frozen=True)
class TokensSegmenter(Segmenter):
    """One step every `num_tokens` tokens; the last one holds what is left."""

    num_tokens: Count

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
