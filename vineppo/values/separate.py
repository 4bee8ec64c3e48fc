"""A critic that is a model of its own, with its own optimizer and epochs."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vineppo.config.schema import SeparateCritic, TrainConfig
from vineppo.deepspeed_module import DeepSpeedModule, Summand, Update
from vineppo.minibatches import is_sound, minibatches, summarize
from vineppo.models import LoadedModel, can_pack
from vineppo.policy import Policy, checkpoint_activations
from vineppo.rollouts import Prompt
from vineppo.types import Rollout, TrainBatch
from vineppo.values.heads import (
    VALUE_NUMBERS,
    FrozenValueModel,
    ValueModel,
    ValueOutputs,
    check_size,
    load_value_model,
    save_value_model,
    set_targets,
    value_objective,
    values_of,
)
from vineppo.values.predictor import ValuePredictor
from vineppo.values.view import View


class SeparateValueModel(ValueModel):
    """V(s) of a network trained on returns: PPO's critic (arXiv:2410.01679, section 3).

    Its values of an iteration are those before it trains on that iteration, so a baseline never
    holds the rollout's own return. It sees no temperature.
    """

    Config = SeparateCritic
    takes_turns = True

    def __init__(
        self, name: str, config: TrainConfig, critic: SeparateCritic, loaded: LoadedModel
    ) -> None:
        super().__init__(name, config, critic)
        self._critic = critic
        self._tokenizer = loaded.tokenizer
        self._hf_model: Any = load_value_model(critic, config.model, config.seed)
        check_size(self._hf_model, loaded.engine_model.num_token_ids, config.engine.max_model_len)
        self.view = View(critic.view, loaded.tokenizer, self.key)

    def check_problems(self, prompts_P: Sequence[Prompt]) -> None:
        positions = getattr(self._hf_model.config, "max_position_embeddings", None)
        self.view.check(prompts_P, self.config.max_valued_tokens, positions)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: SeparateCritic, directory: Path | None
    ) -> ValuePredictor | None:
        return FrozenValueModel.at_checkpoint(name, config, options, directory)

    def start(self, policy: Policy) -> None:  # noqa: ARG002
        checkpoint_activations(self._hf_model, self.config.model.gradient_checkpointing)
        parts = [self._hf_model]
        if self._critic.head_learning_rate is not None:
            parts = [self._hf_model.base_model, self._hf_model.score]
        groups = [list(part.parameters()) for part in parts]
        self.packs = can_pack(self._hf_model)
        module = ValueOutputs(self._hf_model)
        self._deepspeed = DeepSpeedModule(module, groups, self._hf_model.dtype, self._critic)

    @property
    def device(self) -> torch.device:
        return self._deepspeed.device

    @torch.no_grad()
    def values(self, batch: TrainBatch) -> torch.Tensor:
        """[B, T] on the CPU, 0 outside the response."""
        values_BT = values_of(self._deepspeed(batch), self._critic.loss)
        return (values_BT * batch.response_mask_BT).cpu()

    def prepare_update(self, rollouts: Sequence[Rollout]) -> None:
        self._hf_model.score.measure_offset(rollouts, self._critic.loss)
        set_targets(rollouts, self.name, self.config, self._critic.learns_from)

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:
        """The value model's own epochs over its own minibatches; `critic/*` metrics or alike."""
        columns = (self.column, f"targets/{self.name}")
        updates: list[Update] = []
        rate = 0.0
        for part in minibatches(
            self, self.seen(rollouts, rollouts), columns, self._critic, self.config, iteration,
            "critic minibatches",
        ):  # fmt: skip
            loss = partial(value_objective, self._critic.loss, self.name, part.sizes)
            rate = part.learning_rate
            updates.append(self.step(part.micro_batches, loss, rate))
        return summarize(updates, self.metrics_group, VALUE_NUMBERS, rate)

    def step(
        self,
        micro_batches: Sequence[TrainBatch],
        loss: Callable[[TrainBatch, torch.Tensor], Summand],
        learning_rate: float,
    ) -> Update:
        """One optimizer step on Σ loss(micro-batch, the head's outputs)."""
        rates, of_head = [learning_rate], self._critic.head_learning_rate
        if of_head is not None:
            rates.append(learning_rate * of_head / self._critic.learning_rate)
        return self._deepspeed.update(
            micro_batches,
            lambda batch: loss(batch, self._deepspeed(batch)),
            rates,
            partial(is_sound, None),
        )

    def save_hf(self, directory: Path) -> None:
        weights = self._deepspeed.named_weights(self._hf_model)
        save_value_model(self._hf_model, self._tokenizer, weights, self._critic.loss, directory)

    def save_state(self, directory: Path) -> None:
        self._deepspeed.save_state(directory)

    def load_state(self, directory: Path) -> None:
        self._deepspeed.load_state(directory)
