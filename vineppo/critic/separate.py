"""A value model of its own, with its own optimizer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from vineppo.config.schema import SeparateCritic
from vineppo.critic.value_loss import values_of
from vineppo.critic.value_model import ValueOutputs, save_value_model
from vineppo.deepspeed_module import DeepSpeedModule, Summand, Update
from vineppo.policy import checkpoint_activations
from vineppo.types import TrainBatch

ValueLossFunction = Callable[[TrainBatch, torch.Tensor], Summand]


class SeparateValueModel:
    """`Critic` with a backbone of its own: what `load_value_model` loads."""

    def __init__(
        self, config: SeparateCritic, hf_model: Any, tokenizer: Any, gradient_checkpointing: bool
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._hf_model = hf_model
        if gradient_checkpointing:
            checkpoint_activations(hf_model)
        groups = [list(hf_model.parameters())]
        self._deepspeed = DeepSpeedModule(ValueOutputs(hf_model), groups, hf_model.dtype, config)

    @property
    def device(self) -> torch.device:
        return self._deepspeed.device

    @torch.no_grad()
    def values(self, batch: TrainBatch) -> torch.Tensor:
        values_BT = values_of(self._deepspeed(batch), self._config.loss)
        return (values_BT * batch.response_mask_BT).cpu()

    def update(
        self,
        micro_batches: Sequence[TrainBatch],
        loss: ValueLossFunction,
        learning_rate: float,
        is_accepted: Callable[[list[dict[str, float]]], bool],
    ) -> Update:
        """One optimizer step on Σ loss(micro-batch, the head's outputs)."""
        return self._deepspeed.update(
            micro_batches,
            lambda batch: loss(batch, self._deepspeed(batch)),
            [learning_rate],
            is_accepted,
        )

    def save_hf(self, directory: Path) -> None:
        weights = self._deepspeed.named_weights(self._hf_model)
        save_value_model(self._hf_model, self._tokenizer, weights, self._config.loss, directory)

    @property
    def leaves_while_sampling(self) -> bool:
        return self._deepspeed.leaves_while_sampling

    def offload(self) -> None:
        self._deepspeed.offload()

    def reload(self) -> None:
        self._deepspeed.reload()

    def save_state(self, directory: Path) -> None:
        self._deepspeed.save_state(directory)

    def load_state(self, directory: Path) -> None:
        self._deepspeed.load_state(directory)
