"""PPO optimises: from a random policy to a synthetic reward's optimum, by either kind of critic."""

import math
from concurrent.futures import Future
from dataclasses import replace

import pytest
from support.shared_critic import shared_critic

from vineppo.config.load import complete, evaluate_jsonnet, parse_config
from vineppo.config.schema import LlamaArchitecture, TrainConfig
from vineppo.distributed import init_distributed
from vineppo.experience import (
    add_advantages,
    add_logprobs,
    add_values,
    sample,
)
from vineppo.metrics import value_quality
from vineppo.models import load_model
from vineppo.policy import Reference
from vineppo.progress import Progress
from vineppo.recipes.arithmetic import build_tokenizer
from vineppo.recipes.sft import write_new_model
from vineppo.rollouts import Prompt, Sampler
from vineppo.train import load_models
from vineppo.types import Problem
from vineppo.update import update

TINY = LlamaArchitecture(
    hidden_size=64,
    intermediate_size=128,
    num_layers=2,
    num_heads=2,
    num_key_value_heads=2,
    max_position_embeddings=64,
)
CHOSEN = set("37")  # two of the 19 token ids: a share of about 0.1


class ShareOfChosen:
    """In the grader's place: the share of the budget that is spent on the chosen characters."""

    reads_special_tokens = False

    def reads(self, _finish_reason):
        return True

    def submit(self, _problem, text, *_):
        reward = Future()
        reward.set_result(sum(c in CHOSEN for c in text) / BUDGET)
        return reward

    def metrics(self):
        return {}


BUDGET = 12


def build_config(configs, model_path, kind):
    resolved = complete(evaluate_jsonnet(str(configs / "demo_ppo.jsonnet")))
    resolved["model"]["path"] = str(model_path)
    resolved["num_iterations"] = 60
    resolved["sampling"]["max_tokens"] = BUDGET
    resolved["engine"]["max_model_len"] = 32
    resolved["rollouts"] = {"num_prompts": 4, "num_samples": 32}
    resolved["credit"] |= {"policy_lambda": 0.95}
    resolved["optimization"] |= {"learning_rate": 3e-3, "max_mean_ratio": None}
    resolved["critic"] |= {"learning_rate": 3e-3}
    if kind == "shared":
        resolved["critic"] = shared_critic(3e-3)
    return parse_config(TrainConfig, resolved)


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("learning") / "model"
    write_new_model(TINY, path, 0, build_tokenizer())
    return path


@pytest.fixture(scope="session")
def engine(configs, model_path):
    """One for all, to the end: with an engine goes the process group, which DeepSpeed needs."""
    config = build_config(configs, model_path, "separate")
    loaded = load_model(config.model.path, "float32", "sdpa")
    init_distributed()
    return config.engine.build(loaded.engine_model)


def run(config, engine, goal=math.inf):
    """Mean reward and the critic's explained variance by iteration, until a reward above `goal`."""
    loaded = load_model(config.model.path, "float32", "sdpa")
    reference = Reference(config.reference, config.model, loaded)
    models = load_models(config, loaded)()
    predictors = models.predictors
    sampler = Sampler(engine, ShareOfChosen(), loaded.tokenizer, config.sampling, config.seed)
    questions = [f"{digit}+{digit}?" for digit in range(4)]
    prompts = [Prompt(Problem(q, q, ""), tuple(loaded.tokenizer.encode(q))) for q in questions]
    rewards, explained = [], []
    with Progress(config.num_iterations, 0, 0.0) as progress:
        for iteration in range(1, config.num_iterations + 1):
            engine.load_weights(models.policy.named_weights())
            rollouts = sample(
                sampler, prompts, config, predictors, iteration, progress, None
            ).rollouts
            add_logprobs(rollouts, models.policy, reference, predictors, config)
            add_values(rollouts, predictors)
            add_advantages(rollouts, predictors, config, 0.0)
            update(rollouts, models.policy, predictors, reference, config, iteration, 0.0)
            rewards.append(sum(r.reward for r in rollouts) / len(rollouts))
            found = value_quality(rollouts, predictors, config)
            explained.append(found["critic/explained_variance"])
            if rewards[-1] > goal:
                break
    return rewards, explained


@pytest.mark.parametrize("kind", ["separate", pytest.param("shared", marks=pytest.mark.slow)])
def test_ppo_takes_a_synthetic_reward_to_its_optimum(configs, model_path, engine, kind):
    rewards, _ = run(build_config(configs, model_path, kind), engine, goal=0.95)
    assert 0.02 < rewards[0] < 0.2
    assert rewards[-1] > 0.95, rewards


@pytest.mark.slow
def test_a_critic_of_a_frozen_policy_explains_what_can_be_known(configs, model_path, engine):
    """At token t, t of 12 independent tokens are known: on average 11/24 of the variance."""
    config = build_config(configs, model_path, "separate")
    critic = replace(config.critic, warmup_iterations=25)
    rewards, explained = run(replace(config, critic=critic, num_iterations=25), engine)
    assert max(rewards) < 0.2
    assert explained[0] < 0
    assert 0.3 < sum(explained[-5:]) / 5 < 0.5, explained
