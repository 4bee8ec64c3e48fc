"""Values as log-ratios: the sums by another pass, what they learn, and that they come back."""

from dataclasses import replace

import pytest
import torch
from support.critics import check_comes_back, learned, rollouts, values_of
from transformers import AutoModelForCausalLM

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import resolve_model_path

BOUNDED = {"kind": "cross_entropy", "low": 0, "high": 1}
SQUARED = {"kind": "squared_error", "clip": None}
CRITIC = {"kind": "log_ratio", "loss": BOUNDED, "beta": 3.0, "fit": "prefixes"}


@pytest.mark.parametrize("loss", [BOUNDED, SQUARED], ids=lambda loss: loss["kind"])
def test_values_are_sums_of_log_ratios_and_come_back(configs, tmp_path, loss):
    config, models = learned(configs, CRITIC | {"loss": loss}, iterations=2)
    (critic,) = models.predictors
    first = AutoModelForCausalLM.from_pretrained(resolve_model_path(config.model.path))
    temperature = config.sampling.temperature

    def logprobs(model, rollout):
        ids = torch.tensor([[*rollout.prompt_ids, *rollout.response_ids]])
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, len(rollout.prompt_ids) - 1 : -1]
        all_TV = (logits[:, :num_ids] / temperature).log_softmax(-1)
        return all_TV.gather(-1, torch.tensor(rollout.response_ids)[:, None])[:, 0]

    num_ids = critic.outputs.start.num_token_ids
    for rollout, found_T in zip(rollouts(), values_of(models, rollouts()), strict=True):
        ratios_T = logprobs(critic.hf_model, rollout) - logprobs(first, rollout)
        sums_T = 3 * (ratios_T.cumsum(0) - ratios_T)  # V(s_0) is 0.5, its logit 0
        expected_T = sums_T.sigmoid() if loss is BOUNDED else 0.5 + sums_T
        torch.testing.assert_close(found_T, expected_T, atol=1e-5, rtol=1e-4)
        assert found_T[0] == pytest.approx(0.5, abs=1e-6)
    check_comes_back(config, models, tmp_path)


@pytest.mark.parametrize("fit", ["prefixes", "end"])
def test_the_deciding_token_moves_the_value(configs, fit):
    """All tokens but the third are the same: known before it is the mean, and after it the end."""
    ids = [(5, 6, 4 if one.reward else 7, 8, 9) for one in rollouts()]
    some = [
        replace(
            one, prompt_ids=(1, 11), response_ids=ids_T, logprobs_T=(-1.0,) * 5,
            tokens_T={"rewards": (0.0,) * 4 + (one.reward,)},
        )
        for one, ids_T in zip(rollouts(), ids, strict=True)
    ]  # fmt: skip
    _, models = learned(configs, CRITIC | {"fit": fit, "learning_rate": 3e-4}, some)
    for one, found_T in zip(some, values_of(models, some), strict=True):
        assert found_T[0] == pytest.approx(0.5, abs=1e-5)
        assert abs(found_T[-1] - one.reward) < 0.25
        if fit == "prefixes":
            assert abs(found_T[2] - 0.5) < 0.25
            assert abs(found_T[3] - one.reward) < 0.25


@pytest.mark.parametrize(
    "change", ["critic.loss={'kind':'squared_error'}", "critic.head_learning_rate=1e-3"]
)
def test_what_makes_no_sense_is_refused(configs, change):
    key = change.partition("=")[0]
    with pytest.raises(UserError, match=key):
        load_config(TrainConfig, str(configs / "recipes/log_ratio.jsonnet"), [change])
