import pytest
from support.rollouts import LINES, rollout

from vineppo.credit import token_advantages
from vineppo.recipes.reinforce_plus_plus import (
    ReinforcePlusPlusBaselineCredit,
    ReinforcePlusPlusCredit,
)


def test_the_documented_numbers():
    to_go = ReinforcePlusPlusCredit("reinforce_plus_plus", LINES, gamma=0.5)
    found = token_advantages(to_go, [rollout([-0.1, 0.0, 1.0])])
    assert found[0] == pytest.approx([0.15, 0.5, 1.0])
    baseline = ReinforcePlusPlusBaselineCredit("reinforce_plus_plus_baseline", LINES)
    group = [rollout([reward]) for reward in (1.0, 0.0, 0.0, 0.0)]
    assert token_advantages(baseline, group) == [[0.75], [-0.25], [-0.25], [-0.25]]
