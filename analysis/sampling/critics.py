"""The critics of a run as functions of a state: the value before its next token."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import torch
from vineppo.critic.value_loss import values_of
from vineppo.critic.value_model import ValueOutputs, load_value_model

from vineppo.batching import collate, length_bucketed, response_rows
from vineppo.config.schema import AdamConfig, SeparateCritic, TrainConfig
from vineppo.types import TrainSequence


def critic_values(
    config: TrainConfig, policy: str, checkpoint: int, states: Sequence[tuple[int, ...]]
) -> list[float]:
    """V(s) of every state, all of its token ids, the prompt's first, by the critic of a checkpoint.

    `policy` is where the checkpoint's policy is (`policy_paths`); its critic lies beside it. Of
    checkpoint 0 it is the critic that training starts with: a new head is drawn from the run's
    seed, the same one again. The values of checkpoint i are those that the run itself wrote to
    `values/` of iteration i + 1, up to the rounding of batches.

    A state after an end-of-sequence token has no value: no critic is ever trained there.
    """
    assert config.critic is not None, "only runs with a critic have critic values"
    path = str(Path(policy).with_name("critic")) if checkpoint else _starting_path(config)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    critic = as_separate(config, path)
    model = ValueOutputs(load_value_model(critic, config.model, config.seed)).to(device).eval()
    # The value before a token does not see it, so any token stands for the next one.
    sequences = [TrainSequence.blank(ids, (0,)) for ids in states]
    size = config.optimization.logprobs_micro_batch_size
    found: dict[int, float] = {}
    for places in length_bucketed([len(sequence) for sequence in sequences], size):
        batch = collate([sequences[place] for place in places], device)
        with torch.no_grad():
            values_BT = values_of(model(batch), critic.loss)
        rows = response_rows([values_BT], batch)
        found |= {place: row[0] for place, (row,) in zip(places, rows, strict=True)}
    return [found[place] for place in range(len(states))]


def as_separate(config: TrainConfig, path: str | None) -> SeparateCritic:
    """The run's critic as a model of its own at `path`, which is how either kind is saved."""
    assert config.critic is not None
    adam = {f.name: getattr(config.optimization, f.name) for f in dataclasses.fields(AdamConfig)}
    return SeparateCritic(
        kind="separate",
        path=path,
        loss=config.critic.loss,
        warmup_iterations=config.critic.warmup_iterations,
        **adam,
    )


def _starting_path(config: TrainConfig) -> str | None:
    return config.critic.path if isinstance(config.critic, SeparateCritic) else None
