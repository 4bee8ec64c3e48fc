"""What a run's predictors say once training is over: what they said while it went on."""

import json
from dataclasses import replace

import pytest
import torch
from support.shared_critic import shared_critic

from vineppo.config.load import evaluate_jsonnet, load_config, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.experience import add_logprobs, add_values
from vineppo.models import load_model
from vineppo.token_scores import Reference
from vineppo.train import load_models
from vineppo.types import Problem, Rollout, StepSpan
from vineppo.values import build_predictors, predictors_at

LOSSES = {
    "squared_error": {"kind": "squared_error", "clip": None},
    "cross_entropy": {"kind": "cross_entropy", "low": -0.5, "high": 1.5},
}
# Values a step by what it has learned: the number of rollouts that it has seen.
OWN = """
class Predictor:
    def __init__(self, options):
        self.seen = options["start"]

    def values(self, rollouts):
        return [[self.seen] * len(rollout.spans_S) for rollout in rollouts]

    def update(self, rollouts):
        self.seen += len(rollouts)

    def save(self, directory):
        (directory / "seen").write_text(str(self.seen))

    def load(self, directory):
        self.seen = int((directory / "seen").read_text())
"""


def rollout(index=0, reward=1.0, length=9):
    return Rollout(
        problem=Problem("p", "", ""),
        rollout_index=index,
        prompt_ids=(1, 5, 6),
        response_ids=tuple(range(4, 4 + length)),
        logprobs_T=(-1.0,) * length,
        finish_reason="stop",
        text="",
        reward=reward,
        spans_S=(StepSpan(0, 3), StepSpan(3, length)),
    )


@pytest.mark.parametrize("kind", ["separate", "shared"])
@pytest.mark.parametrize("loss", LOSSES)
def test_either_kind_of_critic_comes_back_from_its_directory(configs, tmp_path, kind, loss):
    resolved = evaluate_jsonnet(str(configs / "demo_ppo.jsonnet"))
    resolved["critic"] |= {"loss": LOSSES[loss]}
    if kind == "shared":
        resolved["critic"] = shared_critic(loss=LOSSES[loss])
    config = parse_config(TrainConfig, resolved)
    loaded = load_model(config.model.path, "float32", "sdpa")
    reference = Reference(config.reference, config.model, loaded)
    models = load_models(config, loaded)()
    (critic,) = models.predictors

    def of_training():
        one = rollout()
        add_logprobs([one], models.policy, reference, [critic], config)
        add_values([one], [critic])
        return one.values_T("critic")

    def saved(directory):
        one = rollout()
        (predictor,) = predictors_at(config, directory)
        predictor.estimate([one])
        return one.values_T("critic")

    start = of_training()
    assert saved(None) == pytest.approx(start, abs=1e-5)
    model = models.policy if kind == "shared" else critic
    engine = getattr(model, "deepspeed", None) or model._deepspeed
    with torch.no_grad():
        for parameter in engine._engine.module.parameters():
            parameter += 0.02 * torch.randn_like(parameter)
    models.save_hf(tmp_path)
    assert of_training() != pytest.approx(start, abs=1e-2)
    assert saved(tmp_path) == pytest.approx(of_training(), abs=1e-5)
    assert predictors_at(config, tmp_path / "elsewhere") == []


@pytest.fixture
def own_config(configs, tmp_path):
    (tmp_path / "mine.py").write_text(OWN)
    mine = {"kind": "python", "path": str(tmp_path / "mine.py"), "options": {"start": 2}}
    predictors = {"mine": mine, "others": {"kind": "group_mean"}}
    values = json.dumps({"credit": None, "predictors": predictors})
    return load_config(TrainConfig, str(configs / "demo_rloo.jsonnet"), [f"values={values}"])


def test_a_users_own_predictor_is_loaded_as_it_was_saved(own_config, tmp_path):
    loaded = load_model(own_config.model.path, "float32", "sdpa")
    mine, _ = build_predictors(own_config, loaded)
    mine.update([rollout()] * 5, 1)
    mine.save_hf(tmp_path / "final" / "mine")
    for directory, seen in ((None, 2), (tmp_path / "final", 7)):
        one = rollout()
        predictors_at(own_config, directory)[0].estimate([one])
        assert one.values_S("mine") == [seen, seen]
    assert [one.name for one in predictors_at(own_config, tmp_path / "older")] == ["others"]


def test_a_branch_has_the_baseline_of_the_rollout_that_it_leaves(own_config):
    """The mean of the others: the branch has no reward."""
    rollouts = [rollout(0, 1.0), rollout(1, 0.0), rollout(2, 1.0)]
    branches = [replace(rollout(index, float("nan")), steps_S={}) for index in (1, 1, 0)]
    mine, others = predictors_at(own_config, None)
    for predictor in (mine, others):
        predictor.estimate(rollouts)
        predictor.estimate_branches(branches, rollouts)
    assert [one.values_S("others") for one in branches] == [[1, 1], [1, 1], [0.5, 0.5]]
    assert branches[0].values_S("mine") == [2, 2]
