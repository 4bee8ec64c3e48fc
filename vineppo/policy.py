"""The policy under training: log-probabilities, updates and weights, under DeepSpeed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from vineppo.config.schema import AdamConfig
from vineppo.deepspeed_module import DeepSpeedModule, Summand, Update
from vineppo.models import LoadedModel, can_pack, save_model
from vineppo.token_scores import ForwardOptions, TokenLogprobs, TokenScores
from vineppo.types import TrainBatch

LossFunction = Callable[[TrainBatch, TokenScores], Summand]


class Policy:
    """An HF model, with a value head on its backbone where `value_head` is given.

    If the model has adapters, only these train; whoever asks for its weights, and HF checkpoints,
    get them merged.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        optimization: AdamConfig,
        gradient_checkpointing: bool | Literal["auto"],
        value_head: nn.Module | None = None,
    ) -> None:
        self.tokenizer = loaded.tokenizer
        self.hf_model, self.adapters = loaded.model, loaded.adapters
        checkpoint_activations(self.hf_model, gradient_checkpointing)
        module = TokenLogprobs(
            self.hf_model,
            loaded.engine_model.num_token_ids,
            value_head,
            is_sharded=optimization.zero_stage == 3,
        )
        groups = [[w for w in self.hf_model.parameters() if w.requires_grad]]
        if value_head is not None:
            groups.append(list(value_head.parameters()))
        self.num_groups = len(groups)
        self.packs = can_pack(self.hf_model)
        self.deepspeed = DeepSpeedModule(module, groups, self.hf_model.dtype, optimization)

    @property
    def device(self) -> torch.device:
        return self.deepspeed.device

    def scores(self, batch: TrainBatch, options: ForwardOptions) -> TokenScores:
        return TokenScores(**self.deepspeed(batch, options))

    def update(
        self,
        micro_batches: Sequence[TrainBatch],
        loss: LossFunction,
        options: ForwardOptions,
        learning_rates: Sequence[float],
        is_accepted: Callable[[list[dict[str, float]]], bool],
    ) -> Update:
        """One optimizer step on Σ loss(micro-batch); rates of the model and of the value head."""
        return self.deepspeed.update(
            micro_batches,
            lambda batch: loss(batch, self.scores(batch, options)),
            learning_rates,
            is_accepted,
        )

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names of the HF checkpoint and tensors, one gathered from its ZeRO-3 shards at a time."""
        if self.adapters is not None:
            return self.adapters.merged_weights(self.hf_model)
        return self.deepspeed.named_weights(self.hf_model)

    def save_hf(self, directory: Path) -> None:
        """The policy in HF format with its tokenizer, loadable by transformers and vLLM."""
        save_model(self.hf_model, self.tokenizer, self.named_weights(), directory)


def checkpoint_activations(model: nn.Module, asked: bool | Literal["auto"] = True) -> None:
    """Backward passes recompute activations if `asked`: "auto" asks for it on a GPU."""
    if not (torch.cuda.is_available() if asked == "auto" else asked):
        return
    model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    model.train()  # HF checkpoints in training mode alone; dropout is off
