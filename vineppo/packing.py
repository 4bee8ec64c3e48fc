"""Passes without padding: a batch's tokens in one row, laid out as rows for attention alone.

transformers looks attention up by name. `PACKED` is the name of ours, which a model gets when it is
loaded (`let_pack`). Without a layout it is transformers' own `sdpa`.
"""

from typing import Any, cast

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from vineppo.models import PACKED
from vineppo.types import PackedTokens

BY_LENGTH = {"dynamic", "longrope"}  # rotations that depend on how long a pass is


class NoCache(Cache):
    """A transformers cache that holds nothing: a layer attends to what the pass itself gives it.

    Without a cache, transformers (5.16 to 5.19) asks the device whether positions start anew
    (`find_packed_sequence_indices`), and a GPU's queue runs empty once a pass. With a cache it does
    not ask; masks and numbers are the same. It serves models of attention alone
    (`has_attention_alone`). A layer that recomputes activations gets no cache, and needs none.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return key_states, value_states


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
        past_key_values=NoCache(),
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
    if layout is not None and attention_mask is None:
        return layout.attend(module, (query, key, value), **options), None
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
