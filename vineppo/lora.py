"""Low-rank adapters in place of the weights (LoRA, arXiv:2106.09685): h = W x + (α / r) · B A x.

A and B train, W never changes. Whoever else needs the policy (the engine, a checkpoint) gets the
merged W + (α / r) · B A under the name of W.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vineppo.config.schema import LoraConfig
from vineppo.errors import UserError
from vineppo.models import named_weights
from vineppo.seeds import derive_seed

ADAPTER = "default"  # peft's name of the only one


@torch.no_grad()
def add_adapters(model: Any, config: LoraConfig, run_seed: int) -> None:
    """Puts an adapter on every module whose name ends with one of `target_modules`, in place.

    What else the model has is frozen. B is 0, so that the start is the model itself; A is
    U(−1/√H, 1/√H) for H inputs, from a stream of its own. Raises `UserError` for a target that no
    linear module has, and for the output projection, which may be the embedding.
    """
    from peft import LoraConfig as PeftConfig
    from peft import inject_adapter_in_model

    check_targets(model, config.target_modules)
    inject_adapter_in_model(
        PeftConfig(
            r=config.rank,
            lora_alpha=config.alpha,
            lora_dropout=0.0,  # the policy that samples has none
            target_modules=list(config.target_modules),
        ),
        model,
        ADAPTER,
    )
    generator = torch.Generator().manual_seed(derive_seed(run_seed, "adapters"))
    for layer in _adapted(model).values():
        a_RH, b_OR = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
        bound = 1 / math.sqrt(a_RH.shape[1])
        a_RH.copy_(torch.empty(a_RH.shape).uniform_(-bound, bound, generator=generator))
        b_OR.zero_()


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


def has_adapters(model: nn.Module) -> bool:
    return bool(_adapted(model))


def merged_weights(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """`named_weights` of the model with its adapters merged, one at a time; it stays as it is."""
    layers = _adapted(model)
    for name, parameter in named_weights(model):
        owner, is_host, rest = name.partition(".base_layer.")
        if is_host and owner in layers:
            weight = merged(parameter, layers[owner]) if rest == "weight" else parameter.detach()
            yield f"{owner}.{rest}", weight
        elif name.partition(".lora_")[0] not in layers:
            yield name, parameter.detach()


@torch.no_grad()
def merged(weight_OH: torch.Tensor, layer: Any) -> torch.Tensor:
    """W + (α / r) · B A, summed in float32 and rounded once to the precision of W."""
    a_RH, b_OR = layer.lora_A[ADAPTER].weight, layer.lora_B[ADAPTER].weight
    delta_OH = layer.scaling[ADAPTER] * (b_OR.float() @ a_RH.float())
    return (weight_OH.float() + delta_OH).to(weight_OH.dtype)


def save_adapters(model: Any, directory: Path) -> None:
    """The adapters alone, in peft's format: `PeftModel.from_pretrained(base, directory)` has them.

    The base is the starting policy, as it was named.
    """
    from safetensors.torch import save_file

    tensors = {
        f"base_model.model.{name.replace(f'.{ADAPTER}.', '.')}": weight.detach().cpu().contiguous()
        for name, weight in model.named_parameters()
        if ".lora_" in name
    }
    config = copy(model.peft_config[ADAPTER])
    config.base_model_name_or_path, config.task_type = model.name_or_path, "CAUSAL_LM"
    config.inference_mode = True
    config.save_pretrained(directory)
    save_file(tensors, directory / "adapter_model.safetensors", metadata={"format": "pt"})


@contextmanager
def without_adapters(model: nn.Module) -> Iterator[None]:
    """The model as it was before `add_adapters`; what trains keeps its flags."""
    layers = _adapted(model).values()
    # peft's own switch would also freeze the adapters.
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def _adapted(model: nn.Module) -> dict[str, Any]:
    """peft's layers by the names of the modules that they stand in for."""
    return {name: module for name, module in model.named_modules() if hasattr(module, "lora_A")}
