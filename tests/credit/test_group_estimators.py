import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rollouts import rollout, terminal

from vineppo.credit import token_advantages
from vineppo.credit.groups import (
    GrpoCredit,
    RlooCredit,
    grpo_advantages,
    rloo_advantages,
)
from vineppo.segment import LinesSegmenter

SEGMENTER = LinesSegmenter("lines")
GRPO = GrpoCredit("grpo", SEGMENTER, normalize_std=True)
DR_GRPO = GrpoCredit("grpo", SEGMENTER, normalize_std=False)
RLOO = RlooCredit("rloo", SEGMENTER)
GROUP_ESTIMATORS = [GRPO, DR_GRPO, RLOO]

RETURNS = st.lists(st.floats(-5, 5), min_size=2, max_size=9)


def group(returns_G):
    """Rollouts of 1, 2, … tokens."""
    return [rollout(terminal(r, i + 1)) for i, r in enumerate(returns_G)]


def test_docstring_examples():
    assert grpo_advantages([1.0, 0.0, 0.0, 0.0], False) == [0.75, -0.25, -0.25, -0.25]
    # Σ (R − mean)² = 0.5625 + 3·0.0625 = 0.75; the sample's std is √(0.75/3) = 0.5.
    assert grpo_advantages([1.0, 0.0, 0.0, 0.0], True) == pytest.approx(
        [0.75 / 0.500001, *[-0.25 / 0.500001] * 3]
    )
    # Each less the mean of the other two: 1 − 0.25, 0 − 0.75, 0.5 − 0.5.
    assert rloo_advantages([1.0, 0.0, 0.5]) == [0.75, -0.75, 0.0]


@pytest.mark.parametrize("config", GROUP_ESTIMATORS, ids=repr)
def test_one_advantage_on_all_tokens_of_the_summed_reward(config):
    found = token_advantages(config, [rollout([0.25, 0.75]), rollout([0.0, 0.0, 0.0])])
    expected = token_advantages(config, [rollout([1.0]), rollout([0.0])])
    assert found == [expected[0] * 2, expected[1] * 3]
    assert expected[0][0] > 0 > expected[1][0]


@given(RETURNS)
def test_rloo_leaves_one_out(returns_G):
    for i, found in enumerate(rloo_advantages(returns_G)):
        others = returns_G[:i] + returns_G[i + 1 :]
        assert found == pytest.approx(returns_G[i] - sum(others) / len(others), abs=1e-9)


@pytest.mark.parametrize("config", GROUP_ESTIMATORS, ids=repr)
@given(returns_G=RETURNS, data=st.data())
def test_permuting_the_group_permutes_the_advantages_and_their_sum_is_0(config, returns_G, data):
    order = data.draw(st.permutations(range(len(returns_G))))
    rollouts = group(returns_G)
    found = token_advantages(config, rollouts)
    permuted = token_advantages(config, [rollouts[i] for i in order])
    assert permuted == [found[i] for i in order]
    assert sum(advantages_T[0] for advantages_T in found) == pytest.approx(0.0, abs=1e-9)


@given(RETURNS.filter(lambda returns: max(returns) - min(returns) > 0.1))
def test_normalised_advantages_have_the_samples_deviation_1(returns_G):
    advantages = grpo_advantages(returns_G, True)
    assert sum(a**2 for a in advantages) / (len(advantages) - 1) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("config", GROUP_ESTIMATORS, ids=repr)
@pytest.mark.parametrize("reward", [0.1, 1 / 3, 0.7])
def test_equal_returns_give_exactly_0(config, reward):
    assert token_advantages(config, [rollout([reward])] * 3) == [[0.0]] * 3


@pytest.mark.parametrize("config", GROUP_ESTIMATORS, ids=repr)
def test_a_group_of_one_is_refused(config):
    with pytest.raises(ValueError, match="at least 2 rollouts, got 1"):
        token_advantages(config, [rollout([1.0])])
