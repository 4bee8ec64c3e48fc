"""The sizes of a model, found from its HF config without its weights."""

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.models import resolve_model_path
from vineppo.recipes.lora import Lora, check_targets
from vineppo.recipes.sft import llama_config
from vineppo.token_scores import last_hidden


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder.

    Qwen2.5-0.5B: 494,032,768 parameters, with the projection tied to the embedding of 151,936
    ids × 896, in 24 layers, and 2 · 24 · 2 heads · 64 = 6,144 numbers of key-value cache a token.
    """

    num_parameters: int
    num_layers: int
    hidden_size: int
    vocab_size: int
    is_tied: bool
    cache_numbers: int  # keys and values of a token, over all layers

    @property
    def matrix_parameters(self) -> int:
        """Those that a token is multiplied with; an untied embedding is only looked up."""
        looked_up = 0 if self.is_tied else self.vocab_size * self.hidden_size
        return self.num_parameters - looked_up


class Skeleton:
    """An HF model of PyTorch's fake tensors: shapes and operations of a CPU's, without memory.

    Its sizes are exact for any architecture. `is_critic`: the sequence classifier with one label
    instead of the language model.
    """

    def __init__(self, hf_config: Any, dtype: str, attention: str, is_critic: bool = False) -> None:
        from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

        self.is_critic = is_critic
        hf_config = copy.deepcopy(hf_config)
        kind: Any = AutoModelForCausalLM
        if is_critic:
            kind, hf_config.num_labels = AutoModelForSequenceClassification, 1
        with FakeTensorMode() as self._mode:
            self._model = kind.from_config(
                hf_config, dtype=getattr(torch, dtype), attn_implementation=attention
            )

    def num_adapter_parameters(self, lora: Lora) -> int:
        """Those of A and B at every adapted module; rank 4 at a 128 × 128 projection has 1,024."""
        check_targets(self._model, lora.target_modules)
        return sum(
            lora.rank * (module.in_features + module.out_features)
            for name, module in self._model.named_modules()
            if isinstance(module, nn.Linear)
            and any(f".{name}".endswith(f".{target}") for target in lora.target_modules)
        )

    @property
    def shape(self) -> ModelShape:
        config = self._model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_size = getattr(config, "head_dim", None)
        head_size = head_size or config.hidden_size // config.num_attention_heads
        return ModelShape(
            num_parameters=sum(p.numel() for p in self._model.parameters()),
            num_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            is_tied=bool(config.tie_word_embeddings),
            cache_numbers=2 * config.num_hidden_layers * heads * head_size,
        )

    @cache  # noqa: B019 (a command makes a few skeletons and ends)
    def saved_bytes(self, num_sequences: int, num_tokens: int) -> int:
        """Bytes that autograd keeps of the backbone's pass over a padded micro-batch.

        Found by running the pass on shapes alone and listening to what it saves. Weights are left
        out, and a tensor that several operations keep counts once.
        """
        weights = {p.untyped_storage()._cdata for p in self._model.parameters()}
        kept: dict[int, torch.UntypedStorage] = {}  # holds them, so that no address is used twice

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage._cdata not in weights:
                kept[storage._cdata] = storage
            return tensor

        with self._mode, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            token_ids_BT = torch.zeros(num_sequences, num_tokens, dtype=torch.long)
            hidden_BTH = last_hidden(self._model.base_model, token_ids_BT)
        assert hidden_BTH.requires_grad
        return sum(storage.nbytes() for storage in kept.values())

    @property
    def layer_bytes(self) -> float:
        """Bytes that a token takes while it passes one layer."""
        num_tokens = 16  # few, so that the square of the mask is nothing
        return self.saved_bytes(1, num_tokens) / num_tokens / self.shape.num_layers


@dataclass(frozen=True)
class Models:
    """The models of a run, without memory; `critics` go by their tables' keys."""

    policy: Skeleton
    num_adapter_parameters: int | None  # they train instead of the policy's own
    critics: dict[str, Skeleton]
    reference: ModelShape | None


def read_models(config: TrainConfig, model_config: Path | None) -> Models:
    """`model_config` is an HF config.json to read instead of `model.path`'s, or None."""
    model = config.model
    if model_config is None and model.path is None:
        assert model.architecture is not None
        policy_config = llama_config(model.architecture, config.task.build_tokenizer())
    else:
        policy_config = read_hf_config(model.path or "", "model.path", model_config)

    def skeleton(path: str | None, key: str, is_critic: bool = False) -> Skeleton:
        is_policys = path is None or path == model.path
        hf_config = policy_config if is_policys else read_hf_config(path or "", key, None)
        return Skeleton(hf_config, model.dtype, model.attention, is_critic)

    policy = skeleton(model.path, "model.path")
    lora = model.lora
    adapters = policy.num_adapter_parameters(lora) if isinstance(lora, Lora) else None
    critics = {
        key: skeleton(critic.path, f"{key}.path", is_critic=True)
        for key, critic in config.value_models.items()
    }
    reference = None
    if config.reference.path is not None:
        reference = skeleton(config.reference.path, "reference.path").shape
    # The policy without its adapters is the reference itself.
    elif adapters is None and config.reference.kl_estimator is not None:
        reference = policy.shape
    return Models(policy, adapters, critics, reference)


def read_hf_config(path: str, key: str, config_file: Path | None) -> Any:
    """The HF config of the model at `path`, or the one in `config_file` instead.

    Raises `UserError` naming `key` or the option if it cannot be read.
    """
    from transformers import AutoConfig

    if config_file is not None and not config_file.is_file():
        raise UserError(f"--model-config: file not found: {config_file}")
    source = str(config_file) if config_file is not None else resolve_model_path(path, key)
    try:
        return AutoConfig.from_pretrained(source)
    except (OSError, ValueError, TypeError) as error:
        name = f"--model-config {config_file}" if config_file is not None else f"{key} {path}"
        raise UserError(
            f"cannot read the HF config of {name}; --model-config FILE names a config.json "
            f"({str(error).strip().splitlines()[0]})"
        ) from None
