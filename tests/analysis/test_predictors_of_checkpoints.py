"""A run's predictors give the same values after training as during it."""

import json
from contextlib import ExitStack

import pytest
import torch
from support.shared_critic import shared_critic

from analysis.sampling.policies import Checkpoint, Policies
from analysis.sampling.policies import add_values as add_values_at
from vineppo.config.load import complete, evaluate_jsonnet, load_config, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.experience import add_logprobs, add_values
from vineppo.models import load_model
from vineppo.policy import Reference
from vineppo.train import load_models
from vineppo.types import MONTE_CARLO, Problem, Rollout, StateValue, StepSpan
from vineppo.values import ValuePredictor, build_predictors, predictors_at

LOSSES = {
    "squared_error": {"kind": "squared_error", "clip": None},
    "cross_entropy": {"kind": "cross_entropy", "low": -0.5, "high": 1.5},
}
# Values a step by what it has learned: the number of rollouts that it has seen.
OWN = """
from dataclasses import dataclass

from vineppo.config.schema import PredictorConfig
from vineppo.values import ValuePredictor


class Mine(ValuePredictor):
    @dataclass(frozen=True)
    class Config(PredictorConfig):
        start: int

    def __init__(self, *given):
        super().__init__(*given)
        self.seen = self.options.start

    def estimate(self, rollouts):
        self.set_by_rollout(rollouts, [self.seen] * len(rollouts))

    def update(self, rollouts, iteration):
        self.seen += len(rollouts)
        return {}

    def state(self):
        return {"seen": self.seen}

    def set_state(self, state):
        self.seen = state["seen"]
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
    resolved = complete(evaluate_jsonnet(str(configs / "demo_ppo.jsonnet")))
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
    engine = model.deepspeed
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
    mine = {"kind": f"{tmp_path / 'mine.py'}:Mine", "start": 2}
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


# The sum of the hidden state before each step.
PROBE = """
from vineppo.values import ValuePredictor


class Probe(ValuePredictor):
    reads_hidden = True

    def estimate(self, rollouts):
        self.set_values(rollouts, [rollout.hidden_SH.sum(1) for rollout in rollouts])
"""


class Tokens(ValuePredictor):
    """The same of every token, in the policy's pass itself."""

    gives = "tokens"
    reads_hidden = True

    def from_policy(self, scores):
        return scores.hidden_BTH.sum(-1)


def test_probes_read_the_policys_hidden_states_in_training_and_at_a_checkpoint(configs, tmp_path):
    (tmp_path / "probe.py").write_text(PROBE)
    probe = {"kind": f"{tmp_path / 'probe.py'}:Probe"}
    values = json.dumps({"credit": None, "predictors": {"probe": probe}})
    config = load_config(TrainConfig, str(configs / "demo_rloo.jsonnet"), [f"values={values}"])
    loaded = load_model(config.model.path, "float32", "sdpa")
    rollouts = [rollout(0, length=9), rollout(1, length=5)]
    expected = []
    for one in rollouts:
        ids = torch.tensor([[*one.prompt_ids, *one.response_ids]])
        with torch.no_grad():
            hidden_TH = loaded.model.base_model(ids).last_hidden_state[0]
        # The state before the token at place 3 is what the token at place 2 gives.
        expected.append(hidden_TH[2:-1].sum(-1).tolist())
    reference = Reference(config.reference, config.model, loaded)
    models = load_models(config, loaded)()
    both = [*models.predictors, Tokens("tokens", config)]
    add_logprobs(rollouts, models.policy, reference, both, config)
    add_values(rollouts, both)
    checkpoint = Checkpoint(tmp_path, 0, config.model.path, tmp_path / "none", {})
    vars(checkpoint)["config"] = config
    later = [rollout(0, length=9), rollout(1, length=5)]
    branches = [rollout(1, length=9)]
    policies = Policies(config, 0, ExitStack())
    assert add_values_at(policies, checkpoint, later, branches).keys() == {"probe"}
    for one, values_T in zip(rollouts, expected, strict=True):
        assert one.values_T("tokens") == pytest.approx(values_T, abs=1e-4)
    for one, values_T in zip([*rollouts, *later, *branches], [*expected * 2, expected[0]],
                             strict=True):  # fmt: skip
        assert list(one.values_S("probe")) == pytest.approx([values_T[0], values_T[3]], abs=1e-4)
        assert one.hidden_SH.shape == (2, loaded.model.config.hidden_size)
        assert len(one.tokens_T["trainer_logprobs"]) == len(one.response_ids)
    # Who does not ask gets none.
    add_logprobs(rollouts, models.policy, reference, [], config)
    assert {one.hidden_SH is None for one in rollouts} == {True}


def test_who_reads_returns_values_states_that_have_them(configs, tmp_path):
    """After the predictor that sampled them, and not where continuations are missing."""
    many = {"kind": "monte_carlo", "num_continuations": 2, "identical_prefixes": "share",
            "states": None}  # fmt: skip
    predictors = {"pool": {"kind": "pooled", "of": "many"}, "many": many}
    values = json.dumps({"credit": None, "predictors": predictors})
    config = load_config(TrainConfig, str(configs / "demo_rloo.jsonnet"), [f"values={values}"])
    checkpoint = Checkpoint(tmp_path, 0, config.model.path, tmp_path / "none", {})
    vars(checkpoint)["config"] = config
    policies = Policies(config, 0, ExitStack())
    one, without = rollout(reward=1.0), rollout()
    assert add_values_at(policies, checkpoint, [without]) == {}
    fresh = tuple(StateValue((1.0, 0.0, 0.0, 0.0), 40) for _ in one.spans_S)
    one.returns_S = {MONTE_CARLO: fresh}  # of which `many` takes the first two
    assert add_values_at(policies, checkpoint, [one], [without]) == {}
    assert add_values_at(policies, checkpoint, [one]).keys() == {"pool"}
    assert one.values_S("pool") == [0.5, 0.5]
