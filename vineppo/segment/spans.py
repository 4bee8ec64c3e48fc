"""From cuts in the text of a response to spans of its tokens."""

from collections.abc import Sequence
from itertools import pairwise

from vineppo.types import StepSpan


def spans_from_cuts(token_texts_T: Sequence[str], cuts: Sequence[int]) -> tuple[StepSpan, ...]:
    """Token spans of the steps that begin at the character positions `cuts`.

    A step starts at the first token whose text begins at or after the cut, so a token that
    straddles a cut stays with the step before it: a state is a prefix of the sampled ids, and no
    token is ever taken apart. Two cuts that fall on the same token are one. The last token never
    is a step by itself: in a finished response it is the end-of-sequence token, which belongs to
    the step it ends.

    With the pieces `["So", ".\\n", "x", " =", " 3", "</s>"]` and the cut 4 (after the newline) the
    token that begins at character 4 is `"x"`:

    >>> spans_from_cuts(["So", ".\\n", "x", " =", " 3", "</s>"], [4])
    (StepSpan(start=0, end=2), StepSpan(start=2, end=6))

    `cuts` ascend; those at 0 or past the text change nothing. No tokens give no spans.
    """
    num_tokens = len(token_texts_T)
    if num_tokens == 0:
        return ()
    starts = [0]
    position, token = 0, 0
    for cut in cuts:
        while token < num_tokens and position < cut:
            position += len(token_texts_T[token])
            token += 1
        if starts[-1] < token < num_tokens - 1:
            starts.append(token)
    return tuple(StepSpan(start, end) for start, end in pairwise([*starts, num_tokens]))
