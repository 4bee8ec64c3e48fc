"""A sure step joins the next one, and the surest ones do where there are too many."""

from vineppo.recipes.merged import MergedSegmenter
from vineppo.segment import LinesSegmenter
from vineppo.types import StepSpan


def test_a_sure_step_joins_the_next():
    """Lines of two tokens; a single doubtful token is enough for a step."""
    segment = MergedSegmenter("merged", LinesSegmenter("lines"), 0.9)
    lines = ["a", "\n"] * 4
    assert segment.spans(lines, [0, 0, 0, -0.7, 0, 0, -0.7, 0]) == (StepSpan(0, 4), StepSpan(4, 8))
    assert segment.spans(lines, [-0.7] * 8) == LinesSegmenter("lines").spans(lines)
    assert segment.spans(lines, [0.0] * 8) == (StepSpan(0, 8),)


def test_at_most_so_many_steps_end_where_it_was_least_sure():
    """Five lines have the least log-probabilities −3, −1, −2, −1, −9; the end is no boundary."""
    logprobs = [-3, 0, 0, -1, -2, 0, -1, 0, 0, -9]
    lines = ["a", "\n"] * 5
    for max_steps, starts in ((9, [0, 2, 4, 6, 8]), (4, [0, 2, 4, 6]), (3, [0, 2, 6]), (1, [0])):
        segmenter = MergedSegmenter("merged", LinesSegmenter("lines"), max_steps=max_steps)
        spans = segmenter.spans(lines, logprobs)
        assert [span.start for span in spans] == starts
        assert spans[-1].end == 10
        assert segmenter.expected(39) == max_steps
        # No token behind the last boundary that could be cut decides anything.
        assert segmenter.spans(lines, [*logprobs[:8], 0, 0]) == spans
