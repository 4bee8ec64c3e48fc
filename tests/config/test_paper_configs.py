"""The leaves of configs/paper hold the paper's values (arXiv:2410.01679, and its code)."""

from itertools import product

import pytest

from vineppo.config.load import load_config
from vineppo.config.schema import SftConfig, TrainConfig

MODELS = {
    ("rho1b", "gsm8k"): "realtreetune/rho-1b-sft-GSM8K",
    ("rho1b", "math"): "realtreetune/rho-1b-sft-MATH",
    ("deepseekmath7b", "math"): "realtreetune/deepseekmath-7b-sft-MATH-v2",
}
BASES = {
    "rho1b": ("microsoft/rho-math-1b-v0.1", 1e-5),
    "deepseekmath7b": ("deepseek-ai/deepseek-math-7b-base", 5e-5),
}
ITERATIONS = {"gsm8k": 650, "math": 1000}
METHODS = {"vineppo": 9, "ppo": None}
PROMPT = "[MATH_TASK] Problem:\n{question}\n\nSolution:"


def load(configs, kind, name):
    return load_config(kind, str(configs / "paper" / f"{name}.jsonnet"), [])


@pytest.mark.parametrize(
    ("where", "method"),
    [
        *product(MODELS, METHODS),
        *product([("rho1b", "gsm8k"), ("rho1b", "math")], ("grpo", "rloo")),
    ],
    ids=str,
)
def test_reinforcement_learning(configs, where, method):
    config = load(configs, TrainConfig, "_".join((*where, method)))
    _, data = where
    assert (config.model.path, config.task.kind) == (MODELS[where], data)
    assert config.model.dtype == "bfloat16"
    assert config.model.gradient_checkpointing
    assert config.num_iterations == ITERATIONS[data]
    assert (config.rollouts.num_prompts, config.rollouts.num_samples) == (64, 8)
    assert getattr(config.credit, "num_continuations", None) == METHODS.get(method)
    assert config.credit.segmenter.kind == ("lines" if data == "gsm8k" else "math")
    sampling, evaluation = config.sampling, config.evaluation
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.6, 0.9, 1024)
    found = evaluation.temperature, evaluation.top_p, evaluation.num_samples
    assert found == (0.35, 0.9, 16)
    assert config.task.prompt.template == PROMPT
    check_adam(config.optimization, 1e-6)
    assert config.optimization.clip_low == config.optimization.clip_high == 0.2


def check_adam(optimization, learning_rate):
    assert optimization.learning_rate == learning_rate
    assert (optimization.warmup_fraction, optimization.schedule) == (0.03, "linear")
    betas = optimization.adam_beta1, optimization.adam_beta2, optimization.adam_eps
    assert betas == (0.9, 0.999, 1e-8)
    assert (optimization.weight_decay, optimization.max_grad_norm) == (0, 1)
    assert (optimization.num_epochs, optimization.batch_size) == (2, 64)


@pytest.mark.parametrize(("where", "method"), product(MODELS, ("vineppo", "ppo")), ids=str)
def test_the_two_that_the_paper_compares(configs, where, method):
    config = load(configs, TrainConfig, "_".join((*where, method)))
    assert config.optimization.whiten_advantages
    assert config.optimization.max_mean_ratio == 10
    reference = config.reference
    assert (reference.kl_coef, reference.kl_estimator, reference.kl_in) == (1e-4, "k3", "loss")
    assert (reference.kl_clamp, reference.kl_aggregation) == ((0, 10), "sequence_sum")


@pytest.mark.parametrize("where", MODELS, ids=str)
def test_the_critic_of_ppo(configs, where):
    config = load(configs, TrainConfig, "_".join((*where, "ppo")))
    critic, credit = config.critic, config.credit
    check_adam(critic, 1e-6)
    assert critic.path is None  # the fine-tuned checkpoint, as the policy
    assert (critic.loss.kind, critic.loss.clip) == ("squared_error", 0.2)
    assert (credit.gamma, credit.policy_lambda, credit.critic_lambda) == (1, 1, 1)


@pytest.mark.parametrize("where", MODELS, ids=str)
def test_fine_tuning_before(configs, where):
    config = load(configs, SftConfig, "_".join((*where, "sft")))
    model, data = where
    base, learning_rate = BASES[model]
    assert (config.model.path, config.task.kind) == (base, data)
    check_adam(config.optimization, learning_rate)
