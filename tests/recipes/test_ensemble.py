"""Several critics: the rollouts that each trains on, their mean, and that they come back."""

import pytest
import torch
from support.critics import build_config, critic_of, rollouts, start

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.values import predictors_at


def config_of(configs, **changes):
    sizes = {"critic__batch_size": 8, "critic__micro_batch_size": 3}
    own = {"kind": "ensemble", "num": 2, "agreed": 0, "disputed": 0}
    changes = {f"critic__{key}": value for key, value in own.items()} | sizes | changes
    return build_config(configs, "separate", **changes)


def values(ensemble, found, name="critic"):
    ensemble.estimate(found)
    return torch.tensor([value for rollout in found for value in rollout.values_T(name)])


def test_each_critic_learns_from_its_own_rollouts(configs):
    """Even ones have reward 0 and odd ones 1, so that one critic falls and the other rises."""
    ensemble = critic_of(start(config_of(configs, critic__head_init="zero")))
    found = rollouts()
    for iteration in range(1, 16):
        ensemble.estimate(found)
        metrics = ensemble.update(found, iteration)
    mean = values(ensemble, found)
    first, second = (values(ensemble, found, f"critic_{m}") for m in range(2))
    torch.testing.assert_close(mean, (first + second) / 2)
    assert first.mean() < 0.25
    assert second.mean() > 0.75
    assert metrics["critic/spread"] == pytest.approx(0.5, abs=0.25)
    assert metrics["critic/loss"] < 0.03  # of each on its own


def test_a_checkpoint_has_all_of_them(configs, tmp_path):
    config = config_of(configs)
    models, found = start(config), rollouts()
    critic_of(models).estimate(found)
    critic_of(models).update(found, 1)
    expected = values(critic_of(models), found)
    models.save_hf(tmp_path / "hf")
    models.save_state(tmp_path / "state")
    torch.testing.assert_close(values(predictors_at(config, tmp_path / "hf")[0], found), expected)
    again = start(config)
    assert not torch.allclose(values(critic_of(again), found), expected, atol=1e-4)
    again.load_state(tmp_path / "state")
    torch.testing.assert_close(values(critic_of(again), found), expected)


def test_more_critics_than_rollouts_are_refused(configs):
    with pytest.raises(UserError, match=r"critic\.num must be at most rollouts\.num_samples = 4"):
        load_config(TrainConfig, str(configs / "recipes/ensemble.jsonnet"), ["critic.num=5"])


def test_agreed_tokens_do_not_train_and_disputed_ones_get_no_bonus(configs):
    """Five tokens, a share of 0.4 each: the two least, and the two most, spread ones."""
    ensemble = critic_of(start(config_of(configs, critic__agreed=0.4, critic__disputed=0.4)))
    (found,) = rollouts()[:1]
    found.response_ids = (5,) * 5
    halves_T = (0.3, 0.1, 0.2, 0.5, 0.4)
    found.tokens_T = {
        "values/critic_0": halves_T,
        "values/critic_1": tuple(-half for half in halves_T),
        "loss_advantages": (1.0, 2.0, 3.0, 4.0, 5.0),
    }
    ensemble.prepare_update([found])
    assert found.tokens_T["loss_advantages"] == [1.0, 0.0, 0.0, 4.0, 5.0]
    assert found.tokens_T["is_without_bonus"] == [False, False, False, True, True]
    found.tokens_T |= {"values/critic_1": halves_T, "loss_advantages": (1.0,) * 5}
    ensemble.prepare_update([found])  # all agree alike
    assert found.tokens_T["loss_advantages"] == [1.0] * 5
    assert found.tokens_T["is_without_bonus"] == [False] * 5
