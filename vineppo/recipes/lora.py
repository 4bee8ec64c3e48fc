"""Low-rank adapters instead of the weights (LoRA, arXiv:2106.09685): h = W x + (α / r) · B A x.

A and B train, W never changes. Whoever else needs the policy (the engine, a checkpoint) gets the
merged W + (α / r) · B A under the name of W.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn

from vineppo.config.schema import Adapters, Count, Name, Positive
from vineppo.errors import UserError
from vineppo.models import named_weights
from vineppo.types import derive_seed

ADAPTER = "default"  # peft's name of the only one


@dataclass(frozen=True)
class Lora(Adapters):
    """An adapter on every linear module with a name that ends with one of `target_modules`."""

    rank: Count
    alpha: Positive  # the adapters' product counts alpha / rank
    target_modules: Annotated[tuple[Name, ...], Field(min_length=1)]  # such as "q_proj"

    @torch.no_grad()
    def add(self, model: Any, run_seed: int) -> None:
        """In place; what else the model has is frozen.

        B is 0, so that the start is the model itself; A is U(−1/√H, 1/√H) for H inputs, from its
        own stream. Raises `UserError` for a target that no linear module has, and for the
        output projection, which may be the embedding.
        """
        from peft import LoraConfig, inject_adapter_in_model

        check_targets(model, self.target_modules)
        keys = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=0.0,  # the policy that samples has none
            target_modules=list(self.target_modules),
        )
        inject_adapter_in_model(keys, model, ADAPTER)
        generator = torch.Generator().manual_seed(derive_seed(run_seed, "adapters"))
        for layer in _adapted(model).values():
            a_RH, b_OR = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
            bound = 1 / math.sqrt(a_RH.shape[1])
            a_RH.copy_(torch.empty(a_RH.shape).uniform_(-bound, bound, generator=generator))
            b_OR.zero_()

    def merged_weights(self, model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
        layers = _adapted(model)
        for name, parameter in named_weights(model):
            owner, is_host, rest = name.partition(".base_layer.")
            if is_host and owner in layers:
                weight = merged(parameter, layers[owner]) if rest == "weight" else parameter
                yield f"{owner}.{rest}", weight.detach()
            elif name.partition(".lora_")[0] not in layers:
                yield name, parameter.detach()

    @contextmanager
    def without(self, model: nn.Module) -> Iterator[None]:
        layers = _adapted(model).values()
        # peft's own switch would also freeze the adapters.
        for layer in layers:
            layer._disable_adapters = True
        try:
            yield
        finally:
            for layer in layers:
                layer._disable_adapters = False

    def save(self, model: Any, directory: Path) -> None:
        """In peft's format: `PeftModel.from_pretrained(base, directory)` has them.

        The base is the starting policy, as it was named.
        """
        from safetensors.torch import save_file

        tensors = {
            f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": x.detach().cpu().contiguous()
            for name, x in model.named_parameters()
            if ".lora_" in name
        }
        config = copy(model.peft_config[ADAPTER])
        config.base_model_name_or_path, config.task_type = model.name_or_path, "CAUSAL_LM"
        config.inference_mode = True
        config.save_pretrained(directory)
        save_file(tensors, directory / "adapter_model.safetensors", metadata={"format": "pt"})


def check_targets(model: Any, targets: tuple[str, ...]) -> None:
    head = model.get_output_embeddings()
    linear = {name: part for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    for target in targets:
        matching = [part for name, part in linear.items() if f".{name}".endswith(f".{target}")]
        if not matching or any(part is head for part in matching):
            ends = {name.rpartition(".")[2] for name, part in linear.items() if part is not head}
            raise UserError(
                f"config: model.lora.target_modules must be among {', '.join(sorted(ends))}, "
                f"got {target}"
            )


@torch.no_grad()
def merged(weight_OH: torch.Tensor, layer: Any) -> torch.Tensor:
    """W + (α / r) · B A, summed in float32 and rounded once to the precision of W."""
    a_RH, b_OR = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
    delta_OH = layer.scaling[ADAPTER] * (b_OR.float() @ a_RH.float())
    return (weight_OH.float() + delta_OH).to(weight_OH.dtype)


def _adapted(model: nn.Module) -> dict[str, Any]:
    """peft's layers by the names of the modules that they stand in for."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}
