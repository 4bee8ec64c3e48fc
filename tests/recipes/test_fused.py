"""A prior fused with the others' rewards: the documented numbers, whose rewards, in what order."""

import pytest
from support.critics import build_config, start
from support.rollouts import rollout, terminal
from support.walks import demo

from vineppo.errors import UserError
from vineppo.recipes.fused import Fused, fused


def test_the_documented_numbers():
    assert fused(0.5, 2 / 3, 3) == 0.5
    assert fused(0.5, 1.0, 3) == pytest.approx(0.5 + (1 - 1 / 3) * 0.5)
    assert fused(0.5, 0.0, 0) == 0.5
    assert fused(-2.0, 0.25, 4) == 0.25  # a certainty that one reward contradicts
    assert fused(0.3, 0.9, 10**6) == pytest.approx(0.9, abs=1e-5)


def test_the_rewards_are_the_others_and_the_prior_that_of_the_prompt():
    found = [rollout(terminal(r, 3), lengths_S=[2, 1]) for r in (0.0, 1.0, 1.0, 1.0)]
    for one in found:
        one.steps_S["values/prior"] = (0.5, 0.9)
    Fused("fused", demo(), Fused.Config("fused", "prior")).estimate(found)
    assert found[0].values_S("fused") == [pytest.approx(fused(0.5, 1.0, 3))] * 2
    assert found[1].values_S("fused") == [0.5, 0.5]  # of mean 2/3


def test_it_comes_after_its_prior(configs):
    """Though a config's tables are in the order of the alphabet."""
    a = {"kind": "fused", "prior": "group"}
    config = build_config(
        configs, "separate", values__predictors={"a": a, "group": {"kind": "group_mean"}}
    )
    assert [one.name for one in start(config).predictors] == ["critic", "group", "a"]


@pytest.mark.parametrize("prior", ["none", "fused"])
def test_another_prior_is_refused(configs, prior):
    table = {"kind": "fused", "prior": prior}
    with pytest.raises(UserError, match=r"values\.predictors\.fused\.prior must be another"):
        build_config(configs, "separate", values__predictors={"fused": table})
