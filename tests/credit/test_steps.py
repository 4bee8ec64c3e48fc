import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import spans

from vineppo.credit.vine import broadcast, step_means, step_sums
from vineppo.types import StepSpan

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def test_docstring_examples():
    two_steps = [StepSpan(0, 2), StepSpan(2, 3)]
    assert broadcast([0.5, -1.0], two_steps) == [0.5, 0.5, -1.0]
    assert step_means([0.5, 0.0, -1.0], two_steps) == [0.25, -1.0]
    assert step_sums([0.5, 0.0, -1.0], two_steps) == [0.5, -1.0]


@given(LENGTHS, st.data())
def test_means_undo_a_broadcast_and_sums_keep_the_total(lengths_S, data):
    size = len(lengths_S)
    advantages_S = data.draw(st.lists(st.floats(-1, 1), min_size=size, max_size=size))
    advantages_T = broadcast(advantages_S, spans(lengths_S))
    assert len(advantages_T) == sum(lengths_S)
    assert step_means(advantages_T, spans(lengths_S)) == pytest.approx(advantages_S)
    assert sum(step_sums(advantages_T, spans(lengths_S))) == pytest.approx(sum(advantages_T))
