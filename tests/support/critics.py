"""Critics of the embedded policy, and sequences to train them on."""

import json
import random
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from support.shared_critic import SQUARED, shared_critic
from vineppo.config.load import evaluate_jsonnet, parse_config
from vineppo.config.schema import TrainConfig
from vineppo.models import load_model
from vineppo.scoring import Scored
from vineppo.train import load_models, update_models
from vineppo.types import TrainSequence

CPU = torch.device("cpu")
NUM_IDS = 15  # of which the random sequences consist
SEPARATE = {"learning_rate": 1e-3, "loss": SQUARED}


def build_config(configs: Path, kind: str, **changes: Any) -> TrainConfig:
    """`demo_ppo` with a critic of `kind`; a change is named `table__key`, or `key` at the top."""
    resolved = evaluate_jsonnet(str(configs / "demo_ppo.jsonnet"))
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


def start(config: TrainConfig):
    """The models of a run, as `train` starts them."""
    loaded = load_model(config.model.path, config.model.dtype, config.model.attention)
    return load_models(config, loaded)()


def sequences(count: int, seed: int = 0) -> list[TrainSequence]:
    """Random tokens of random lengths, with returns of 0 and 1 and off-policy everything."""
    stream = random.Random(seed)
    found = []
    for _ in range(count):
        lengths = stream.randrange(3, 9), stream.randrange(4, 30)
        prompt, response = (tuple(stream.randrange(NUM_IDS) for _ in range(n)) for n in lengths)
        old, ref = (tuple(stream.uniform(-4, 0) for _ in response) for _ in range(2))
        found.append(
            TrainSequence(
                prompt_ids=prompt,
                response_ids=response,
                old_logprobs_T=old,
                ref_logprobs_T=ref,
                advantages_T=tuple(stream.gauss(0, 1) for _ in response),
                is_trained_T=tuple(stream.random() < 0.8 for _ in response),
                importance_T=(1.0,) * len(response),
                old_values_T=tuple(stream.uniform(0, 1) for _ in response),
                returns_T=(float(stream.random() < 0.5),) * len(response),
                is_positive=False,
            )
        )
    return found


def train(config: TrainConfig, models, found: list[TrainSequence], iteration: int):
    """The updates of an iteration; their metrics."""
    scored = Scored(found, [], [], None, [], {})
    return update_models(config, models, scored, None, iteration, config.reference.kl_coef)


def saved_weights(save_hf, directory: Path) -> dict[str, torch.Tensor]:
    """What `save_hf` of a policy or a critic writes."""
    save_hf(directory)
    return load_file(directory / "model.safetensors")


def flat(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()
