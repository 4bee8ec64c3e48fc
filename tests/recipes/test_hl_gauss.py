"""A critic of histograms: the bins, what it learns, and that it comes back."""

from math import erf, sqrt

import pytest
import torch
from support.critics import check_comes_back, learned, rollouts, values_of

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.recipes.hl_gauss import edges, histogram, mean

LOSS = {"kind": "cross_entropy", "low": 0, "high": 1}
CRITIC = {"kind": "hl_gauss", "loss": LOSS, "head_init": "zero"}


@pytest.mark.parametrize(("num_bins", "sigma"), [(10, 0.5), (51, 0.75), (101, 2.0)])
def test_targets_are_a_gaussian_in_bins_with_the_mean_of_the_return(num_bins, sigma):
    """Ten bins of 1/6 from −1/3, σ = 1/12: of R = 0 the third has Φ(2) − Φ(0)."""
    returns = torch.tensor([[0.0, 0.3, 1.0]])
    bounds = edges(num_bins, sigma)
    targets = histogram(returns, bounds, sigma)
    if num_bins == 10:
        assert targets[0, 0, 2].item() == pytest.approx(erf(2 / sqrt(2)) / 2)
    torch.testing.assert_close(targets.sum(-1), torch.ones(1, 3), atol=1e-3, rtol=0)
    read = mean(targets.clamp(min=1e-30).log(), bounds)
    torch.testing.assert_close(read, returns, atol=2e-3, rtol=0)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 3)])
def test_it_learns_rewards_and_a_checkpoint_has_it(configs, tmp_path, low, high):
    """It starts in the middle; even rollouts have the low reward and odd ones the high."""
    form = CRITIC | {"loss": LOSS | {"low": low, "high": high}}
    found = rollouts(lambda index: float(high if index % 2 else low))
    _, fresh = learned(configs, form, found, iterations=0)
    middle = (low + high) / 2
    assert torch.cat(values_of(fresh, found)).tolist() == pytest.approx([middle] * 155, abs=1e-4)
    config, models = learned(configs, form, found)
    for one, values_T in zip(found, values_of(models, found), strict=True):
        assert abs(values_T - one.reward).mean() < 0.2 * (high - low)
    check_comes_back(config, models, tmp_path)


@pytest.mark.parametrize(
    "change",
    ["critic.loss={'kind':'squared_error'}", "critic.num_bins=6", "critic.head_init=mean"],
)
def test_what_makes_no_sense_is_refused(configs, change):
    key = change.partition("=")[0]
    with pytest.raises(UserError, match=key):
        load_config(TrainConfig, str(configs / "recipes/hl_gauss.jsonnet"), [change])
