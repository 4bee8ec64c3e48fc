"""A saved critic's values of every token of the rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from vineppo.critic.value_loss import values_of
from vineppo.critic.value_model import ValueOutputs, load_value_model
from vineppo.scoring import Rows, score_tokens

from analysis.sampling.critics import as_separate
from vineppo.config.schema import SeparateCritic, TrainConfig
from vineppo.types import Rollout, TrainBatch


@dataclass(frozen=True)
class TokenValues:
    """V of the state before each token of every rollout, and the critic's number of weights."""

    values: Rows
    num_weights: int


def critic_token_values(
    config: TrainConfig,
    policy_path: str,
    checkpoint: int,
    rollouts: Sequence[Rollout],
    device: torch.device,
) -> TokenValues | None:
    """By the critic beside the policy at `policy_path`, in float32; None where there is none.

    Of checkpoint 0 it is the one that training starts with.
    """
    if config.critic is None:
        return None
    if checkpoint == 0:
        path = config.critic.path if isinstance(config.critic, SeparateCritic) else None
    else:
        directory = Path(policy_path).with_name("critic")
        if not directory.is_dir():
            return None
        path = str(directory)
    policy = replace(config.model, dtype="float32", attention="sdpa")
    model = load_value_model(as_separate(config, path), policy, config.seed)
    module, loss = ValueOutputs(model).to(device).eval(), config.critic.loss

    def forward(batch: TrainBatch) -> tuple[torch.Tensor]:
        return (values_of(module(batch), loss),)

    size = config.optimization.logprobs_micro_batch_size
    (values,) = score_tokens(forward, rollouts, size, device)
    return TokenValues(values, sum(weight.numel() for weight in model.parameters()))
