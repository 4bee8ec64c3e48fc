"""Steps of a fixed number of tokens, whatever they say."""

from collections.abc import Sequence

from vineppo.types import StepSpan


def token_spans(token_texts_T: Sequence[str], num_tokens: int) -> tuple[StepSpan, ...]:
    """Spans of `num_tokens` tokens each; the last one holds what is left.

    >>> token_spans(["a", "b", "c"], num_tokens=2)
    (StepSpan(start=0, end=2), StepSpan(start=2, end=3))
    """
    total = len(token_texts_T)
    return tuple(
        StepSpan(start, min(start + num_tokens, total)) for start in range(0, total, num_tokens)
    )
