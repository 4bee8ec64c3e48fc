"""A critic beside Monte-Carlo values: measured alone it changes nothing, or it feeds them."""

from dataclasses import replace

import pytest
import torch
from support.critics import critic_of, start, values
from support.rollouts import CPU, rollout, two_rollouts

from vineppo.batching import collate
from vineppo.config.load import complete, evaluate_jsonnet, parse_config
from vineppo.config.schema import TrainConfig, ValuesConfig
from vineppo.experience import add_advantages, add_logprobs, add_values
from vineppo.metrics import value_quality
from vineppo.models import load_model
from vineppo.policy import Reference
from vineppo.types import StateValue
from vineppo.values import feeding_predictor

pytestmark = pytest.mark.usefixtures("sharded")


@pytest.fixture(scope="module")
def config(configs):
    """`demo_vineppo` with the critic of `demo_ppo`."""
    resolved = complete(evaluate_jsonnet(str(configs / "demo_vineppo.jsonnet")))
    resolved["critic"] = complete(evaluate_jsonnet(str(configs / "demo_ppo.jsonnet")))["critic"]
    return parse_config(TrainConfig, resolved)


@pytest.fixture(scope="module")
def models(config):
    return start(config)


def found_with(config, models, predictors):
    """The rollouts of an iteration with all that an update reads."""
    loaded = load_model(config.model.path, "float32", "sdpa")
    reference, rollouts = Reference(config.reference, config.model, loaded), two_rollouts()
    for one in rollouts:
        one.values_from = feeding_predictor(config)
    add_logprobs(rollouts, models.policy, reference, predictors, config)
    add_values(rollouts, predictors)
    add_advantages(rollouts, predictors, config, 0.0)
    return rollouts


def column(name, rollouts):
    return [one.tokens_T[name] for one in rollouts]


def test_a_critic_beside_vine_is_measured_and_changes_nothing(config, models):
    critic = critic_of(models)
    alone, beside = (found_with(config, models, found) for found in ([], [critic]))
    assert column("advantages", beside) == [[-0.5, -0.5, 1.0], [-0.5, -0.5, -0.5]]
    for name in ("advantages", "loss_advantages"):
        assert column(name, alone) == column(name, beside)
    assert "critic/explained_variance" in value_quality(beside, [critic], config)
    assert value_quality(alone, [], config) == {}


def test_its_targets_are_the_rewards_to_go_and_its_values_its_own(config, models):
    rollouts = found_with(config, models, [critic_of(models)])
    assert column("targets/critic", rollouts) == [[1.0] * 3, [0.0] * 3]
    values_BT = values(models, collate(rollouts, CPU))
    for values_T, row in zip(column("values/critic", rollouts), values_BT, strict=True):
        torch.testing.assert_close(torch.tensor(values_T), row[2:], atol=1e-6, rtol=0)


def test_a_critic_may_learn_the_returns_of_continuations(config, models, monkeypatch):
    """Before a step those of the state after it, the reward where none is sampled."""
    critic = critic_of(models)
    monkeypatch.setattr(critic, "options", replace(config.critic, learns_from="drawn"))
    one = rollout([0.0, 0.0, 1.0], lengths_S=[1, 1, 1])
    one.returns_S["drawn"] = (
        StateValue((1.0, 1.0), 0), StateValue((0.0, 1.0), 0), StateValue((), 0),
    )  # fmt: skip
    critic.prepare_update([one])
    assert one.tokens_T["targets/critic"] == [0.5, 1.0, 1.0]


def test_vine_takes_the_values_of_the_critic(config, models):
    """A = V(s_1) − V(s_0) and R − V(s_1), by the critic's values of the tokens at step starts."""
    fed = replace(config, values=ValuesConfig("critic", {}))
    first, second = found_with(fed, models, [critic_of(models)])
    v0, _, v1 = first.values_T("critic")
    assert first.tokens_T["advantages"] == pytest.approx([v1 - v0, v1 - v0, 1 - v1])
    assert second.tokens_T["advantages"] == pytest.approx([-second.values_T("critic")[0]] * 3)
