"""Credit by a martingale: exact expectations over all rollouts of a small tree."""

import numpy as np
import pytest
from support.martingales import DEPTH, Tree, fed
from support.rollouts import LINES

from vineppo.credit import token_advantages
from vineppo.recipes.martingale import MartingaleCredit

CREDIT = MartingaleCredit("martingale", LINES)


def test_the_documented_example():
    found = token_advantages(CREDIT, [fed(1.0, [0.5, 0.0], 0.5), fed(0.0, [-0.25, 0.0], 0.5)])
    assert found == [pytest.approx([0.625, 0.125]), pytest.approx([-0.5, -0.25])]


def test_without_differences_the_root_counts_as_one_more_rollout():
    rollouts_G = [fed(reward, [0.0] * length, 0.4) for reward, length in ((1.0, 2), (0.0, 3))]
    found = [advantages_T[0] for advantages_T in token_advantages(CREDIT, rollouts_G)]
    assert found == pytest.approx([1 - (0.4 + 0.0) / 2, 0 - (0.4 + 1.0) / 2])
    assert token_advantages(CREDIT, rollouts_G[:1]) == [pytest.approx([0.6, 0.6])]


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_unbiased_whatever_the_ratios_say(seed):
    """By enumeration, without a draw: the reward's own gradient to rounding. A drift is a bias."""
    tree = Tree(seed)
    truth = tree.gradients(lambda leaves: [[tree.reward[leaf]] * DEPTH for leaf in leaves], 1)
    by_drift = {
        drift: tree.gradients(
            lambda leaves, drift=drift: token_advantages(
                CREDIT, [tree.rollout(leaf, drift) for leaf in leaves]
            ),
            2,
        )
        for drift in (0.0, 0.2)
    }
    assert np.abs(by_drift[0.0] - truth).max() < 1e-12
    assert np.abs(by_drift[0.2] - truth).max() > 1e-3
    assert np.abs(truth).max() > 1e-2
