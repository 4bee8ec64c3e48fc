"""HF models: where their files are, their tokenizer, their weights, saving."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vineppo.config.schema import Adapters, TrainConfig
from vineppo.distributed import is_main
from vineppo.engine import EngineModel
from vineppo.errors import UserError
from vineppo.run_dir.files import read_json, strict_json
from vineppo.types import predictor_key

EMBEDDED = "embedded:"
ASSETS = Path(__file__).parent / "assets"
# A `.bin` file is a pickle, which may run code when it is read.
ALLOW_PICKLE = "VINEPPO_ALLOW_PICKLE"
PACKED = "packed_sdpa"  # the attention that `packing.py` registers


@dataclass(frozen=True)
class LoadedModel:
    """A causal LM, its tokenizer, and what an engine needs to know of them."""

    model: Any
    tokenizer: Any
    engine_model: EngineModel
    adapters: Adapters | None = None


def resolve_model_path(path: str, key: str = "model.path") -> str:
    """A directory for `embedded:NAME` and for a path, the name itself for a hub model.

    Raises `UserError`, with the config's `key`, for an unknown embedded name, a missing directory,
    and pickled weights.
    """
    if path.startswith(EMBEDDED):
        directory = ASSETS / path.removeprefix(EMBEDDED)
        if not directory.is_dir():
            names = ", ".join(sorted(EMBEDDED + p.name for p in ASSETS.glob("*/")))
            raise UserError(f"{key} must be one of {names}, got {path}")
        return str(directory)
    if os.path.isdir(path):
        kinds = {file.suffix for file in Path(path).iterdir()}
        is_pickled = ".bin" in kinds and ".safetensors" not in kinds
        if is_pickled and os.environ.get(ALLOW_PICKLE) != "1":
            raise UserError(
                f"{key} must have its weights in *.safetensors, got pickles (*.bin) in {path}; "
                f"{ALLOW_PICKLE}=1 in the environment reads them"
            )
        return path
    if os.path.exists(path) or path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise UserError(f"model directory not found: {path}")
    return path


def can_pack(model: Any) -> bool:
    """True if a pass may have its tokens in one row, and each prompt once (`let_pack`)."""
    return bool(model.config._attn_implementation == PACKED)


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Makes one line of what transformers raises for absent, damaged or other files of a model."""
    from safetensors import SafetensorError

    kinds = OSError, ValueError, ImportError, KeyError, TypeError, AttributeError, RuntimeError
    try:
        yield
    except (*kinds, SafetensorError) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(f"{what} cannot be loaded: {reason}") from None


def loading(dtype: str, attention: str) -> dict[str, Any]:
    """Arguments of `from_pretrained`, which then returns a report besides the model."""
    return {
        "dtype": getattr(torch, dtype),
        "attn_implementation": attention,
        "output_loading_info": True,
        "use_safetensors": None if os.environ.get(ALLOW_PICKLE) == "1" else True,  # None: either
        "trust_remote_code": False,
    }


def load_model(path: str, dtype: str, attention: str) -> LoadedModel:
    """The policy at `path` (see `resolve_model_path`), on the CPU, with dropout off."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    resolved = resolve_model_path(path)
    with readable(f"model {path}"):
        tokenizer = AutoTokenizer.from_pretrained(resolved, trust_remote_code=False)
        model, report = AutoModelForCausalLM.from_pretrained(resolved, **loading(dtype, attention))
    if missing := sorted(report["missing_keys"]):
        raise UserError(f"model {path} lacks the weights {', '.join(missing)}")
    caps = getattr(model.config.get_text_config(), "attn_logit_softcapping", None)
    if caps is not None and attention != "eager":
        raise UserError(
            f"model.attention must be 'eager' for a model that caps its attention, {path}, got "
            f"{attention!r}; engine.kind 'transformers' cannot serve it"
        )
    keep_token_ids(model)
    num_ids, num_rows = max(tokenizer.get_vocab().values()) + 1, model.config.vocab_size
    if num_ids > num_rows:
        raise UserError(f"model {path}: its {num_rows} rows must be at least the {num_ids} tokens")
    stop_ids = find_stop_ids(model.generation_config, tokenizer)
    for odd in (stop_id for stop_id in stop_ids if stop_id not in range(num_ids)):
        raise UserError(
            f"model {path}: the end-of-sequence id {odd} must be one of the tokenizer's {num_ids}"
        )
    adapt(model)
    return LoadedModel(model, tokenizer, EngineModel(resolved, num_ids, stop_ids))


def adapt(model: Any) -> None:
    """No dropout, as the behaviour policy has none, and attention that can pack."""
    from vineppo.packing import let_pack

    disable_dropout(model)
    let_pack(model)


def disable_dropout(model: nn.Module) -> None:
    """Sets rates on transformers' layers, as many read a number at each pass, not a module."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "activation_dropout", "dropout", "layerdrop"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def with_adapters(loaded: LoadedModel, adapters: Adapters | None, run_seed: int) -> LoadedModel:
    """The model with the adapters in place, if there are any."""
    if adapters is not None:
        adapters.add(loaded.model, run_seed)
    return replace(loaded, adapters=adapters)


def keep_token_ids(model: Any) -> None:
    """Drops the sampling defaults of a `generation_config`: they are not the run's."""
    from transformers import GenerationConfig

    held = model.generation_config.to_dict().items()
    ids = {key: x for key, x in held if key.endswith("token_id") and x not in (None, -1)}
    model.generation_config = GenerationConfig(**ids)


def check_tokenizers(config: TrainConfig) -> None:
    """Raises `UserError` if another model has another tokenizer than the policy; loads no model."""
    policy = load_tokenizer(config.model.path, "model.path").get_vocab()
    paths = {f"{key}.path": model.path for key, model in config.value_models.items()}
    reward_model = config.reward_model
    paths["reference.path"] = config.reference.path
    paths["reward_model.path"] = None if reward_model is None else reward_model.frozen_path
    for name, keys in config.predictors.items():
        if keys.frozen_path is not None:
            paths[f"{predictor_key(name)}.path"] = keys.frozen_path
    for key, path in paths.items():
        if path is not None and load_tokenizer(path, key).get_vocab() != policy:
            raise UserError(f"config: {key} {path} must have the policy's tokenizer")


def load_tokenizer(path: str, key: str) -> Any:
    from transformers import AutoTokenizer

    resolved = resolve_model_path(path, key)
    with readable(f"the tokenizer of model {path}"):
        return AutoTokenizer.from_pretrained(resolved, trust_remote_code=False)


def find_stop_ids(generation: Any, tokenizer: Any) -> tuple[int, ...]:
    """The ids that end a response: of tokenizer, generation config and chat template."""
    eos = generation.eos_token_id if generation else None
    ids = [tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])]
    stop_ids = dict.fromkeys(i for i in (*ids, end_of_turn(tokenizer)) if i is not None)
    if not stop_ids:
        raise UserError(f"model {tokenizer.name_or_path} has no end-of-sequence token")
    return tuple(stop_ids)


def end_of_turn(tokenizer: Any) -> int | None:
    """The special token that the chat template puts behind an assistant's message, or None.

    In ChatML, `"<|im_start|>assistant\n…<|im_end|>\n"`, this is the id of `<|im_end|>`.
    """
    if tokenizer.chat_template is None:
        return None
    said = "ANSWER"
    messages = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": said}]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False)
    except Exception:  # it wants other roles, or fails: `render` says so where a prompt needs it
        return None
    ids_T = tokenizer(text.rpartition(said)[2], add_special_tokens=False)["input_ids"]
    added = tokenizer.added_tokens_decoder.get(ids_T[0]) if ids_T else None
    return ids_T[0] if added is not None and added.special else None


def named_weights(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """HF names and tensors, a tied matrix under each of its names.

    On a CPU vLLM keeps a repacked copy of a tied output projection, which needs its own name.
    """
    return model.named_parameters(remove_duplicate=False)


def save_model(
    model: Any,
    tokenizer: Any,
    weights: Iterable[tuple[str, torch.Tensor]],
    directory: Path,
    left_out: str | None = None,
) -> None:
    """HF format with the tokenizer: `weights` instead of the model's own, which may be shards.

    Every rank takes them one at a time; the main one copies each to the host's memory, and writes.
    `left_out` is a buffer that HF's class does not have.
    """
    tensors = {name: x for name, x in model.state_dict(keep_vars=True).items() if name != left_out}
    held = {name: x for name, x in tensors.items() if not isinstance(x, nn.Parameter)}  # buffers
    # A tied matrix has two names and must stay one tensor: transformers then writes it once.
    first_names = {id(x): name for name, x in reversed(tensors.items())}
    for name, weight in weights:
        first = first_names.get(id(tensors.get(name)), name)
        if is_main():
            held[name] = held[first] if first in held else weight.cpu()
    if is_main():
        model.save_pretrained(directory, state_dict=held)
        tokenizer.save_pretrained(directory)
        add_older_names(directory)


def add_older_names(directory: Path) -> None:
    """Writes what transformers 5 names anew under the names of 4.57 as well.

    4.57 would overlook a rotary base in `rope_parameters` and take its default without a word, and
    refuse the tokenizer.
    """
    config = read_json(directory / "config.json")
    rope = config.get("rope_parameters") or {}
    base = rope.get("full_attention", rope)
    older = {
        "torch_dtype": config.get("dtype"),
        "rope_theta": base.get("rope_theta"),
        "rope_local_base_freq": rope.get("sliding_attention", {}).get("rope_theta"),
        "partial_rotary_factor": base.get("partial_rotary_factor"),
    }
    if base.get("rope_type", "default") != "default":
        older["rope_scaling"] = {key: x for key, x in base.items() if key != "rope_theta"}
    config |= {key: x for key, x in older.items() if x is not None}
    (directory / "config.json").write_bytes(strict_json(config, indent=2))
    names = read_json(directory / "tokenizer_config.json")
    if names.get("tokenizer_class") == "TokenizersBackend":
        names["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(names.get("extra_special_tokens"), list):
        names["additional_special_tokens"] = names.pop("extra_special_tokens")
    (directory / "tokenizer_config.json").write_bytes(strict_json(names, indent=2))
