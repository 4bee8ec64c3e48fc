"""A critic of histograms: the bins, what it learns, and that it comes back."""

from math import erf, sqrt

import pytest
import torch
from support.critics import check_comes_back, learned, rollouts, values_of

from vineppo.recipes.hl_gauss import Histogram, Histograms

CRITIC = {
    "kind": "hl_gauss",
    "loss": {"kind": "hl_gauss", "low": 0, "high": 1},
    "head_init": "zero",
}


def test_targets_are_a_gaussian_in_bins_with_the_mean_of_the_return():
    """Ten bins of 1/6 from −1/3, σ = 1/12: of R = 0 the third has Φ(2) − Φ(0)."""
    loss, returns = (
        Histogram("hl_gauss", 0, 1, num_bins=10, sigma=0.5),
        torch.tensor([[0.0, 0.3, 1.0]]),
    )
    targets = loss.targets(returns)
    assert targets[0, 0, 2].item() == pytest.approx(erf(2 / sqrt(2)) / 2)
    for other in (loss, Histogram("hl_gauss", 0, 1), Histogram("hl_gauss", -1, 2, 101, 2)):
        targets = other.targets(returns)
        torch.testing.assert_close(targets.sum(-1), torch.ones(1, 3), atol=1e-3, rtol=0)
        read = Histograms(torch.nn.Identity(), other).read(targets.clamp(min=1e-30).log())
        torch.testing.assert_close(read, returns, atol=2e-3, rtol=0)


def test_it_learns_rewards_and_a_checkpoint_has_it(configs, tmp_path):
    """It starts in the middle; even rollouts have reward 0 and odd ones 1."""
    _, fresh = learned(configs, CRITIC, iterations=0)
    assert torch.cat(values_of(fresh, rollouts())).tolist() == pytest.approx([0.5] * 155, abs=1e-5)
    config, models = learned(configs, CRITIC)
    found = values_of(models, rollouts())
    assert all(abs(of - i % 2).mean() < 0.2 for i, of in enumerate(found))
    check_comes_back(config, models, tmp_path)
