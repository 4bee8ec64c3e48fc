"""Steps between tokens that the policy was unsure of."""

from vineppo.recipes.cutpoints import CutpointsSegmenter
from vineppo.types import StepSpan


def test_steps_of_cutpoints_begin_with_one():
    """Probabilities 0.5 and 1; the end token is no step by itself, though it is a cutpoint."""
    segment = CutpointsSegmenter("cutpoints", max_prob=0.9, num_cutpoints=1)
    assert segment.spans(["a", "b", "c", "</s>"], [-0.7, 0.0, -0.7, -0.7]) == (
        StepSpan(0, 2), StepSpan(2, 4),
    )  # fmt: skip
    assert segment.spans(["a", "b", "</s>"], [0.0, 0.0, 0.0]) == (StepSpan(0, 3),)
