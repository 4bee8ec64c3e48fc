"""Critics of the embedded policy, and sequences to train them on."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from support.policies import MODEL
from support.rollouts import random_sequences, with_columns
from support.shared_critic import SQUARED, shared_critic
from vineppo.checkpoint import Models
from vineppo.config.load import complete, evaluate_jsonnet, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model, resolve_model_path
from vineppo.policy import Policy
from vineppo.token_scores import ForwardOptions
from vineppo.train import load_models
from vineppo.types import Problem, Rollout, TokenSequence, TrainBatch
from vineppo.update import update
from vineppo.values import ValuePredictor, predictors_at

SEPARATE = {"learning_rate": 1e-3, "loss": SQUARED}


def build_config(configs: Path, kind: str, **changes: Any) -> TrainConfig:
    """`demo_ppo` with a critic of `kind`; a change is named `table__key`, or `key` at the top."""
    resolved = complete(evaluate_jsonnet(str(configs / "demo_ppo.jsonnet")))
    resolved["critic"] = shared_critic(1e-2) if kind == "shared" else resolved["critic"] | SEPARATE
    resolved["optimization"] |= {"learning_rate": 1e-3, "max_mean_ratio": None}
    resolved = json.loads(json.dumps(resolved))
    for name, value in changes.items():
        *tables, key = name.split("__")
        table = resolved
        for part in tables:
            table = table[part]
        table[key] = value
    return parse_config(TrainConfig, resolved)


def start(config: TrainConfig) -> Models:
    """The models of a run, as `train` starts them."""
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    return load_models(config, loaded)()


def critic_of(models: Models) -> Any:
    (critic,) = (one for one in models.predictors if one.name == "critic")
    return critic


def values(models: Models, batch: TrainBatch) -> torch.Tensor:
    """The critic's, [B, T], of either kind; 0 outside the response."""
    critic = critic_of(models)
    if critic.head is None:
        found: torch.Tensor = critic.values(batch)
        return found
    options = ForwardOptions(critic.config.sampling.temperature)
    with torch.no_grad():
        found = critic.from_policy(models.policy.scores(batch, options))
    return found * batch.response_mask_BT


def sequences(count: int, seed: int = 0) -> list[TokenSequence]:
    """Random tokens of random lengths, with targets of 0 and 1 and off-policy everything."""
    stream, found = random.Random(f"critic/{seed}"), []
    for one in random_sequences(count, seed):
        length = len(one.response_ids)
        columns = {
            "importance": (1.0,) * length,
            "is_positive": (False,) * length,
            "values/critic": tuple(stream.uniform(0, 1) for _ in range(length)),
            "targets/critic": (float(stream.random() < 0.5),) * length,
        }
        found.append(with_columns(one, columns))
    return found


def rollouts(reward_of: Any = lambda index: float(index % 2)) -> list[Rollout]:
    """Eight of one problem, with random tokens."""
    return [
        Rollout(
            problem=Problem("p", "?", "1"),
            rollout_index=index,
            prompt_ids=sequence.prompt_ids,
            response_ids=sequence.response_ids,
            logprobs_T=(-1.0,) * len(sequence.response_ids),
            finish_reason="stop",
            text="",
            reward=reward_of(index),
            tokens_T={"rewards": (0.0,) * (len(sequence.response_ids) - 1) + (reward_of(index),)},
        )
        for index, sequence in enumerate(random_sequences(8, 0))
    ]


def values_of(models: Models, found: list[Rollout]) -> list[torch.Tensor]:
    """The critic's values of each rollout's tokens."""
    critic_of(models).estimate(found)
    return [torch.tensor(rollout.values_T("critic")) for rollout in found]


def learn(models: Models, found: list[Rollout], iterations: int = 1) -> None:
    """The critic alone, from the same rollouts in every iteration."""
    for iteration in range(1, iterations + 1):
        values_of(models, found)
        critic_of(models).prepare_update(found)
        critic_of(models).update(found, iteration)


def learned(
    configs: Path, critic: dict[str, Any], found: list[Rollout] | None = None, iterations: int = 30
) -> tuple[TrainConfig, Models]:
    """A run's models once its critic has learned from `found`."""
    sizes = {"batch_size": 8, "micro_batch_size": 3}
    changes = {f"critic__{key}": value for key, value in (sizes | critic).items()}
    config = build_config(configs, "separate", **changes)
    models = start(config)
    learn(models, found or rollouts(), iterations)
    return config, models


def check_comes_back(config: TrainConfig, models: Models, folder: Path) -> None:
    """A checkpoint's HF model and its state give the values and, trained on, the next weights."""
    found = rollouts()
    expected = torch.cat(values_of(models, found))
    models.save_hf(folder / "hf")
    models.save_state(folder / "state")
    (frozen,) = (one for one in predictors_at(config, folder / "hf") if one.name == "critic")
    frozen.estimate(found)
    read = torch.tensor([value for rollout in found for value in rollout.values_T("critic")])
    torch.testing.assert_close(read, expected)
    again = start(config)
    assert not torch.allclose(torch.cat(values_of(again, found)), expected, atol=1e-4)
    again.load_state(folder / "state")
    torch.testing.assert_close(torch.cat(values_of(again, found)), expected)
    learn(models, found)
    learn(again, found)
    torch.testing.assert_close(*(torch.cat(values_of(each, found)) for each in (models, again)))


def train(config: TrainConfig, models: Models, found: Any, iteration: int) -> dict[str, float]:
    """The updates of an iteration; their metrics."""
    reference: Any = None
    kl_coef = config.reference.kl_coef
    return update(found, models.policy, models.predictors, reference, config, iteration, kl_coef)


def saved_weights(model: Policy | ValuePredictor, directory: Path) -> dict[str, torch.Tensor]:
    """The weights that a policy or a critic saves."""
    model.save_hf(directory)
    return load_file(directory / "model.safetensors")


def flat(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def write_classifier(
    directory: Path, num_labels: int = 1, mean: float = 3.0, deviation: float = 2.0
) -> Any:
    """A reward model: the policy's backbone under a head that is far from a new one."""
    classifier = AutoModelForSequenceClassification.from_pretrained(
        resolve_model_path(MODEL), num_labels=num_labels
    )
    with torch.no_grad():
        classifier.score.weight.normal_(mean, deviation)
        classifier.model.norm.weight.mul_(1.5)
    classifier.save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(f"{resolve_model_path(MODEL)}/{name}", directory)
    return classifier
