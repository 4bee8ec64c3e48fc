import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import rollout, terminal

from vineppo.config.schema import LinesSegmenter, VineCredit
from vineppo.credit import token_advantages
from vineppo.credit.vine import vine_advantages

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=20)
CONFIG = VineCredit("vine", 9, LinesSegmenter("lines"), "share", None, False)


def test_docstring_example():
    # V(s_0) = 0.5, V(s_1) = 0.25, reward 1: 0.25 − 0.5 and 1 − 0.25.
    assert vine_advantages([0.5, 0.25], 1.0) == [-0.25, 0.75]


@given(VALUES, st.floats(0, 1))
def test_advantages_telescope(values_S, reward):
    advantages = vine_advantages(values_S, reward)
    assert len(advantages) == len(values_S)
    assert abs(sum(advantages) - (reward - values_S[0])) < 1e-9


def test_every_token_has_the_advantage_of_its_step():
    right = rollout(terminal(1.0, 3), values_S=[0.5, 0.25], lengths_S=[2, 1])
    wrong = rollout(terminal(0.0, 4), values_S=[0.5], lengths_S=[4])
    assert token_advantages(CONFIG, [right, wrong]) == [[-0.25, -0.25, 0.75], [-0.5] * 4]


def test_the_reward_is_the_sum_over_tokens():
    # −0.1 + 0 + 0.6 = 0.5: 0.75 − 0.25, then 0.5 − 0.75.
    shaped = rollout([-0.1, 0.0, 0.6], values_S=[0.25, 0.75], lengths_S=[2, 1])
    assert token_advantages(CONFIG, [shaped])[0] == pytest.approx([0.5, 0.5, -0.25])


def test_missing_values_are_our_mistake():
    with pytest.raises(AssertionError, match="takes no values"):
        token_advantages(CONFIG, [rollout([1.0])])
