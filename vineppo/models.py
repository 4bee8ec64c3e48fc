"""HF models: where their files are, their tokenizer, their weights, and attention that packs.

A packed pass has a batch's tokens in one row without padding, laid out as rows for attention alone.
transformers looks attention up by name. `PACKED` is the name of ours, which a model gets when it is
loaded (`let_pack`). Without a layout it is transformers' own `sdpa`. transformers takes seconds to
import, so functions do it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from vineppo.config.schema import Adapters, TrainConfig
from vineppo.engine import EngineModel
from vineppo.errors import UserError
from vineppo.types import PackedTokens, predictor_key

EMBEDDED = "embedded:"
ASSETS = Path(__file__).parent / "assets"
# A `.bin` file is a pickle, which may run code when it is read.
ALLOW_PICKLE = "VINEPPO_ALLOW_PICKLE"
PACKED = "packed_sdpa"  # the attention that `let_pack` registers
BY_LENGTH = {"dynamic", "longrope"}  # rotations that depend on how long a pass is


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


@cache
def no_cache() -> Any:
    """The class of a transformers cache that holds nothing: layers attend to the pass alone.

    Without a cache, transformers (5.16 to 5.19) asks the device whether positions start anew
    (`find_packed_sequence_indices`), and a GPU's queue runs empty once a pass. With a cache it does
    not ask; masks and numbers are the same. It serves models of attention alone
    (`has_attention_alone`). A layer that recomputes activations gets no cache, and needs none.
    """
    from transformers.cache_utils import Cache

    class NoCache(Cache):
        def __init__(self) -> None:
            super().__init__(layers=[])

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            return key_states, value_states

    return NoCache


def layer_kinds(model: Any) -> set[str]:
    """The kinds of the layers, as transformers names them; "full_attention" is to all tokens."""
    text = model.config.get_text_config()
    windowed = getattr(text, "sliding_window", None) is not None
    kinds = getattr(text, "layer_types", None) or [("full", "sliding")[windowed] + "_attention"]
    return {*kinds, "recurrent"} if model._is_stateful else set(kinds)


def has_attention_alone(model: Any) -> bool:
    """True if every layer attends to all tokens so far, or to a window of them; none recurs."""
    return layer_kinds(model) <= {"full_attention", "sliding_attention"}


def let_pack(model: Any) -> None:
    """Gives a model with `sdpa` our attention, which transformers learns of here, if it can pack.

    It cannot if a layer looks at a window of tokens, or a token's place depends on the pass's
    length. A pass of two tokens finds layers that keep `layout` from their attention, attend twice
    or mask by themselves. Must come before DeepSpeed cuts weights into shards.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    text = model.config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    is_relative = not getattr(text, "alibi", False) and rope.get("rope_type") not in BY_LENGTH
    is_sdpa = model.config._attn_implementation == "sdpa"
    if not (is_sdpa and is_relative and layer_kinds(model) == {"full_attention"}):
        return
    AttentionInterface.register(PACKED, _attention)
    AttentionMaskInterface.register(PACKED, sdpa_mask)
    model.config._attn_implementation = PACKED
    backbone = model.base_model
    places = torch.arange(2, device=next(backbone.parameters()).device)
    zeros = torch.zeros_like(places)
    two = PackedTokens(zeros, zeros, places, places, places[:0], rows=(2, 1))
    try:
        with torch.no_grad():
            packed_hidden(backbone, two)
    except (TypeError, ValueError, RuntimeError):  # it knows no such argument, or does not use it
        model.config._attn_implementation = "sdpa"


def packed_hidden(backbone: Any, packed: PackedTokens) -> torch.Tensor:
    """The last hidden states of all tokens, [M, H].

    Raises `RuntimeError` unless each layer has attended once by the layout: else sequences have
    seen each other.
    """
    layout = Layout(packed)
    hidden_1MH: torch.Tensor = backbone(
        input_ids=packed.token_ids_M[None],
        position_ids=packed.position_ids_M[None],
        past_key_values=no_cache()(),
        use_cache=False,
        layout=layout,
    ).last_hidden_state
    if layout.num_layers != backbone.config.get_text_config().num_hidden_layers:
        raise RuntimeError("sequences of a packed pass have seen each other")
    return hidden_1MH[0]


class Layout:
    """A packed pass's rows of attention: whole sequences, or prompts and the responses behind them.

    Rows of prompts, or whole sequences, are [P, heads, Q, d] and attend causally. A response's row
    attends to its prompt's keys as well; gradients go back to the prompt from all of its responses.
    """

    def __init__(self, packed: PackedTokens) -> None:
        self._packed = packed
        # Padding may hold anything: no token looks at it, and no gradient comes from it.
        self._any_token_L = packed.token_L.clamp(max=len(packed.token_ids_M) - 1)
        self.num_layers = 0  # that have attended
        self._sees_B1RS: torch.Tensor | None = None
        if packed.prompt_lengths_B is not None:
            (count, length), width = packed.responses, packed.rows[1]
            places = torch.arange(max(length, width), device=packed.place_M.device)
            of_prompt_BQ = places[:width] < packed.prompt_lengths_B[:, None]
            causal_RR = places[:length, None] >= places[:length]
            sees = [
                of_prompt_BQ[:, None, None].expand(-1, 1, length, -1),
                causal_RR.expand(count, 1, -1, -1),
            ]
            self._sees_B1RS = torch.cat(sees, dim=3)

    def attend(self, module: Any, states: tuple[torch.Tensor, ...], **options: Any) -> torch.Tensor:
        """Queries, keys, values [1, heads, M, d] to the tokens' new states [1, M, heads, d]."""
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        self.num_layers += 1
        rows, tails = zip(*map(self._laid_out, states), strict=True)
        found = sdpa_attention_forward(module, *rows, None, **options)[0].flatten(0, 1)
        if self._sees_B1RS is not None:
            index_B = self._packed.prompt_index_B
            keys, values = (
                torch.cat([rows[i].index_select(0, index_B), tails[i]], dim=2) for i in (1, 2)
            )
            behind, _ = sdpa_attention_forward(
                module, tails[0], keys, values, self._sees_B1RS, **options
            )
            found = torch.cat([found, behind.flatten(0, 1)])
        return _moved(found, self._packed.place_M, self._packed.token_L)[None]

    def _laid_out(self, x_1hMd: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (P, Q), (B, R) = self._packed.rows, self._packed.responses
        cells = _moved(x_1hMd[0].transpose(0, 1), self._any_token_L, self._packed.place_M)
        rows, tails = cells.split([P * Q, B * R])
        return (
            rows.unflatten(0, (P, Q)).transpose(1, 2),
            tails.unflatten(0, (B, R)).transpose(1, 2),
        )


def _moved(x: torch.Tensor, there: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
    """x[there]; the gradient goes back to x by `back`, which is 0 beyond its end."""
    return cast(torch.Tensor, _Moved.apply(x, there, back))


class _Moved(torch.autograd.Function):
    """Autograd would add gradients up one by one where no two meet."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(back)
        return x.index_select(0, there)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (gradient,) = gradients
        (back,) = ctx.saved_tensors
        if len(back) > len(gradient):  # cells of padding
            gradient = torch.cat([gradient, gradient.new_zeros(1, *gradient.shape[1:])])
        return gradient.index_select(0, back), None, None


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    layout: Layout | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if layout is not None and attention_mask is None:
        return layout.attend(module, (query, key, value), **options), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
