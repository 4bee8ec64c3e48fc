"""A critic that is only measured: beside Monte-Carlo values it changes no advantage."""

from dataclasses import asdict

import pytest
import torch
from support.critics import CPU, build_config, start
from support.experiences import experience
from vineppo.scoring import score

from vineppo.batching import collate
from vineppo.config.load import evaluate_jsonnet, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import load_model
from vineppo.token_scores import Reference


@pytest.fixture(scope="module")
def config(configs):
    """`demo_vineppo` with the critic of `demo_ppo`."""
    resolved = evaluate_jsonnet(str(configs / "demo_vineppo.jsonnet"))
    resolved["critic"] = evaluate_jsonnet(str(configs / "demo_ppo.jsonnet"))["critic"]
    return parse_config(TrainConfig, resolved)


def scored_with(config, models, critic):
    loaded = load_model(config.model.path, "float32", "sdpa")
    reference = Reference(config.reference, config.model, loaded)
    return score(experience(), models.policy, critic, reference, config, 0.0)


def test_a_critic_beside_vine_is_measured_and_changes_nothing(config):
    models = start(config)
    alone, beside = (scored_with(config, models, critic) for critic in (None, models.critic))
    assert beside.advantages_T == [[-0.5, -0.5, 1.0], [-0.5, -0.5, -0.5]]
    assert alone.advantages_T == beside.advantages_T
    for a, b in zip(alone.sequences, beside.sequences, strict=True):
        assert a.advantages_T == b.advantages_T
        assert a.old_values_T == (0.0, 0.0, 0.0)
    assert alone.values is None
    assert "critic/explained_variance" in beside.metrics
    assert "critic/explained_variance" not in alone.metrics


def test_its_targets_are_the_rewards_to_go_and_its_values_its_own(config):
    models = start(config)
    scored = scored_with(config, models, models.critic)
    assert [s.returns_T for s in scored.sequences] == [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0)]
    values_BT = models.critic.values(collate(scored.sequences, CPU))
    for values_T, row, sequence in zip(scored.values, values_BT, scored.sequences, strict=True):
        torch.testing.assert_close(torch.tensor(values_T), row[2:], atol=1e-6, rtol=0)
        assert sequence.old_values_T == values_T


def test_a_shared_critic_beside_vine_is_refused(configs, config):
    with pytest.raises(UserError, match=r"critic\.kind must be 'separate'"):
        build_config(configs, "shared", credit=asdict(config.credit))
