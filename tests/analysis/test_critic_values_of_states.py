"""The critics of a run as functions of a state: the values that training itself had."""

import pytest
import torch
from support.shared_critic import shared_critic
from support.trained_runs import lasting_process_group, trained_path  # noqa: F401

from analysis.sampling.critics import critic_values
from analysis.sampling.policies import policy_paths
from vineppo.batching import collate
from vineppo.config.load import evaluate_jsonnet, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.evaluate import read_config
from vineppo.models import load_model
from vineppo.run_dir import RunDir
from vineppo.train import load_models
from vineppo.types import TrainSequence

LOSSES = {
    "squared_error": {"kind": "squared_error", "clip": None},
    "cross_entropy": {"kind": "cross_entropy", "low": -0.5, "high": 1.5},
}


@pytest.mark.parametrize("iteration", [1, 2])
def test_they_are_the_values_in_the_runs_own_tables(trained_path, iteration):  # noqa: F811
    """Those of iteration i are of checkpoint i − 1, the starting critic's of checkpoint 0."""
    config, run = read_config(trained_path, []), RunDir(trained_path)
    rows = {(r["problem_id"], r["rollout_index"]): r for r in run.read_rollouts(iteration)}
    table = run.read_values(iteration)
    states = []
    for value in table:
        row = rows[value["problem_id"], value["rollout_index"]]
        states.append((*row["prompt_ids"], *row["response_ids"][: value["prefix_length"]]))
    checkpoint = iteration - 1
    policy = policy_paths(trained_path, config.model.path)[checkpoint]
    found = critic_values(config, policy, checkpoint, states)
    expected = [value["critic_value"] for value in table]
    assert found == pytest.approx(expected, abs=1e-5)
    assert torch.tensor(expected).std() > 0.05  # or another state's value would pass


@pytest.mark.parametrize("kind", ["separate", "shared"])
@pytest.mark.parametrize("loss", LOSSES)
def test_either_kind_of_critic_comes_back_from_its_directory(configs, tmp_path, kind, loss):
    resolved = evaluate_jsonnet(str(configs / "demo_ppo.jsonnet"))
    resolved["critic"] |= {"loss": LOSSES[loss]}
    if kind == "shared":
        resolved["critic"] = shared_critic(loss=LOSSES[loss])
    config = parse_config(TrainConfig, resolved)
    models = load_models(config, load_model(config.model.path, "float32", "sdpa"))()
    response = tuple(range(4, 13))
    batch = collate([TrainSequence.blank((1, 5, 6), response)], torch.device("cpu"))
    states = [(1, 5, 6, *response[:t]) for t in range(len(response))]

    def of_training():
        return models.critic.values(batch)[0, 3:].tolist()

    assert critic_values(config, "", 0, states) == pytest.approx(of_training(), abs=1e-5)
    start = of_training()
    weights = models.policy if kind == "shared" else models.critic
    with torch.no_grad():
        for parameter in trained_parameters(weights):
            parameter += 0.02 * torch.randn_like(parameter)
    models.save_hf(tmp_path)
    assert of_training() != pytest.approx(start, abs=1e-2)
    found = critic_values(config, str(tmp_path / "policy"), 7, states)
    assert found == pytest.approx(of_training(), abs=1e-5)


def trained_parameters(model):
    """Of the policy with its value head, or of the value model."""
    engine = getattr(model, "deepspeed", None) or model._deepspeed
    return engine._engine.module.parameters()
