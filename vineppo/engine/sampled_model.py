"""The transformers model that an engine samples from: loading, and taking weights over."""

import os
from collections.abc import Iterable
from typing import Any

import torch

from vineppo.errors import UserError
from vineppo.models import load_model, named_weights
from vineppo.no_cache import has_attention_alone


def load_sampled_model(path: str, dtype: str, max_model_len: int) -> Any:
    """The causal LM at `path` on this rank's device.

    Raises `UserError` where its layers hold more, or see less, than all keys and values so far.
    """
    model = load_model(path, dtype, "sdpa").model.eval()
    if not has_attention_alone(model):
        raise UserError(
            f"model {path}: for engine.kind 'transformers' every layer must attend to all tokens, "
            f"got {model.config.model_type}"
        )
    window = getattr(model.config.get_text_config(), "sliding_window", None)
    if window is not None and window < max_model_len:
        raise UserError(
            "config: engine.max_model_len must be at most the model's attention window for "
            f"engine.kind 'transformers', {window}, got {max_model_len}"
        )
    return model.to(_device())


@torch.no_grad()
def replace_weights(model: Any, given: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Copies `given` over the parameters of their HF names; a tied one may come under each name.

    Raises `ValueError` for a name or shape that the model does not have, and for a parameter that
    is not given.
    """
    parameters = dict(named_weights(model))
    replaced = set()
    for name, weight in given:
        parameter = parameters.get(name)
        if parameter is None:
            raise ValueError(f"weights must be the model's, got {name}")
        if parameter.shape != weight.shape:
            raise ValueError(
                f"weight {name} must have the shape {list(parameter.shape)}, got "
                f"{list(weight.shape)}"
            )
        parameter.copy_(weight)
        replaced.add(id(parameter))
    missing = [name for name, parameter in parameters.items() if id(parameter) not in replaced]
    if missing:
        raise ValueError(f"all weights must be given, got none for {', '.join(missing)}")


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
