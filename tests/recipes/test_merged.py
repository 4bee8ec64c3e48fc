"""A sure step joins the next one."""

from vineppo.recipes.merged import MergedSegmenter
from vineppo.segment.kinds import LinesSegmenter
from vineppo.types import StepSpan


def test_a_sure_step_joins_the_next():
    """Lines of two tokens; a single doubtful token is enough for a step."""
    segment = MergedSegmenter("merged", 0.9, LinesSegmenter("lines"))
    lines = ["a", "\n"] * 4
    assert segment.spans(lines, [0, 0, 0, -0.7, 0, 0, -0.7, 0]) == (StepSpan(0, 4), StepSpan(4, 8))
    assert segment.spans(lines, [-0.7] * 8) == LinesSegmenter("lines").spans(lines)
    assert segment.spans(lines, [0.0] * 8) == (StepSpan(0, 8),)
