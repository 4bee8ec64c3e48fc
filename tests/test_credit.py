from hypothesis import given
from hypothesis import strategies as st

from vineppo.credit.vine import vine_advantages

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)


def test_docstring_example():
    # V(s_0) = 0.5, V(s_1) = 0.25, reward 1: 0.25 − 0.5 and 1 − 0.25.
    assert vine_advantages([0.5, 0.25], 1.0) == [-0.25, 0.75]


@given(VALUES, st.floats(0, 1))
def test_advantages_telescope(values_S, reward):
    advantages = vine_advantages(values_S, reward)
    assert len(advantages) == len(values_S)
    assert abs(sum(advantages) - (reward - values_S[0])) < 1e-9
