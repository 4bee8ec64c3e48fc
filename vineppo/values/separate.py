"""Value models with separate weights: PPO's critic with its optimizer, and frozen ones."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from vineppo.batching import UpdateSizes, is_sound, minibatches, summarize
from vineppo.config.schema import CriticConfig, SeparateCritic, TrainConfig
from vineppo.models import LoadedModel, can_pack
from vineppo.policy import DeepSpeedModule, Policy, Summand, checkpoint_activations
from vineppo.token_scores import token_columns
from vineppo.types import Rollout, TokenSequence, TrainBatch
from vineppo.values import ValuePredictor
from vineppo.values.heads import (
    VALUE_NUMBERS,
    ValueOutputs,
    check_size,
    save_value_model,
    set_targets,
    value_objective,
    values_of,
)


class ValueModel(ValuePredictor):
    """V(s) by a pass of a separate classifier over the rollouts, as it sees them."""

    gives: Literal["tokens", "steps"] = "tokens"
    outputs: ValueOutputs
    hf_model: Any
    packs = False  # a pass may be packed

    @property
    def device(self) -> torch.device:
        raise NotImplementedError

    def values(self, batch: TrainBatch) -> torch.Tensor:
        """[B, T], 0 outside the response."""
        raise NotImplementedError

    def seen(
        self,
        branches: Sequence[Rollout],
        rollouts: Sequence[Rollout],  # noqa: ARG002
    ) -> Sequence[TokenSequence]:
        """The sequences that are passed for the branches of an iteration's `rollouts`."""
        return branches

    def estimate(self, rollouts: Sequence[Rollout]) -> None:
        self.estimate_branches(rollouts, rollouts)

    def estimate_branches(self, branches: Sequence[Rollout], rollouts: Sequence[Rollout]) -> None:
        size = self.config.optimization.logprobs_micro_batch_size
        forward = lambda batch: (self.values(batch),)  # noqa: E731
        seen = self.seen(branches, rollouts)
        (values,) = token_columns(forward, seen, size, self.device, packs=self.packs)
        self.set_values(branches, values)


class FrozenValueModel(ValueModel):
    """A critic as a checkpoint has it, or as training starts, when `start` puts it on the GPU."""

    def __init__(
        self, name: str, config: TrainConfig, critic: CriticConfig, path: str | None
    ) -> None:
        super().__init__(name, config, critic)
        self.outputs = (critic.outputs or ValueOutputs.load)(critic, config, path).eval()
        self.hf_model = self.outputs.model
        self.num_weights = sum(weight.numel() for weight in self.hf_model.parameters())

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: Any, directory: Path | None
    ) -> "FrozenValueModel | None":
        path = None if directory is None else directory / name
        if path is not None and not path.is_dir():
            return None
        model = cls(name, config, options, None if path is None else str(path))
        model.outputs.to("cuda" if torch.cuda.is_available() else "cpu")
        return model

    def start(self, policy: Policy) -> None:
        self.outputs.to(policy.device)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.hf_model.device
        return device

    def values(self, batch: TrainBatch) -> torch.Tensor:
        return values_of(self.outputs(batch), self.options.loss)


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
        self._tokenizer = loaded.tokenizer
        self.outputs = (critic.outputs or ValueOutputs.load)(critic, config)
        self.hf_model = self.outputs.model
        check_size(self.hf_model, loaded.engine_model.num_token_ids, config.engine.max_model_len)

    @classmethod
    def at_checkpoint(
        cls, name: str, config: TrainConfig, options: SeparateCritic, directory: Path | None
    ) -> ValuePredictor | None:
        return FrozenValueModel.at_checkpoint(name, config, options, directory)

    def start(self, policy: Policy) -> None:  # noqa: ARG002
        model = self.hf_model
        checkpoint_activations(model, self.config.model.gradient_checkpointing)
        self.packs = can_pack(model)
        has_rate = self.options.head_learning_rate is not None
        parts = [model.base_model, model.score] if has_rate else [model]
        groups = [list(part.parameters()) for part in parts]
        self.deepspeed = DeepSpeedModule(self.outputs, groups, model.dtype, self.options)

    @property
    def device(self) -> torch.device:
        return self.deepspeed.device

    @torch.no_grad()
    def values(self, batch: TrainBatch) -> torch.Tensor:
        """[B, T] on the CPU, 0 outside the response."""
        values_BT = values_of(self.deepspeed(batch), self.options.loss)
        return (values_BT * batch.response_mask_BT).cpu()

    def prepare_update(self, rollouts: Sequence[Rollout]) -> None:
        self.hf_model.score.measure_offset(rollouts, self.options.loss)
        set_targets(rollouts, self.name, self.config, self.options.learns_from)

    def objective(self, sizes: UpdateSizes, batch: TrainBatch) -> Summand:
        """A micro-batch's summand of the loss, with `VALUE_NUMBERS`."""
        return value_objective(self.options.loss, self.name, sizes, batch, self.deepspeed(batch))

    def update(self, rollouts: Sequence[Rollout], iteration: int) -> dict[str, float]:
        """The value model's epochs over its minibatches; `critic/*` metrics or alike."""
        critic, columns = self.options, (self.column, f"targets/{self.name}")
        updates, rate = [], 0.0
        for part in minibatches(
            self, self.seen(rollouts, rollouts), columns, critic, self.config, iteration,
            "critic minibatches",
        ):  # fmt: skip
            rate = part.learning_rate
            rates = [rate]
            if critic.head_learning_rate is not None:
                rates.append(rate * critic.head_learning_rate / critic.learning_rate)
            loss, sound = partial(self.objective, part.sizes), partial(is_sound, None)
            updates.append(self.deepspeed.update(part.micro_batches, loss, rates, sound))
        return summarize(updates, self.metrics_group, VALUE_NUMBERS, rate)

    def save_hf(self, directory: Path) -> None:
        weights = self.deepspeed.named_weights(self.hf_model)
        save_value_model(self.hf_model, self._tokenizer, weights, self.options.loss, directory)

    def save_state(self, directory: Path) -> None:
        self.deepspeed.save_state(directory)

    def load_state(self, directory: Path) -> None:
        self.deepspeed.load_state(directory)
