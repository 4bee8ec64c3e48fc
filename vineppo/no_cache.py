"""Passes over whole sequences, which keep no keys and values, without a question to the device."""

from typing import Any

import torch
from transformers.cache_utils import Cache

# What `NoCache` is for: layers whose memory are the keys and values of tokens.
ATTENTION = {"full_attention", "sliding_attention"}
BY_LENGTH = {"dynamic", "longrope"}  # rotations that depend on how long a pass is


class NoCache(Cache):
    """A transformers cache that holds nothing: a layer attends to what the pass itself gives it.

    A pass without any cache may be one of packed sequences to transformers (5.16 to 5.19), which
    therefore asks the device whether positions start anew (`find_packed_sequence_indices`), and a
    GPU's queue runs empty once a pass. With a cache it does not ask; masks and numbers are the
    same. Where activations are recomputed, a layer is not given the cache, and needs none.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What a layer calls with its keys and values, and then attends to."""
        return key_states, value_states


class PromptCache(NoCache):
    """Keeps keys and values of prompts, [P, heads, Q, d], and gives them to what continues them.

    First the prompts pass; from `continued` on rows are responses, of which row b has those of
    prompt `prompt_index_B[b]` before its own. Gradients go back to the prompts, from all rows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []  # by layer
        self._index_B: torch.Tensor | None = None

    def continued(self, prompt_index_B: torch.Tensor) -> None:
        self._index_B = prompt_index_B

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_args: Any,
        **_kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self._index_B is None:
            self._kept.append((key_states, value_states))
            return key_states, value_states
        before = (states.index_select(0, self._index_B) for states in self._kept[layer_idx])
        own = key_states, value_states
        keys, values = (torch.cat(pair, dim=2) for pair in zip(before, own, strict=True))
        return keys, values


def can_continue_prompts(model: Any) -> bool:
    """Whether responses may pass behind kept keys and values of their prompts.

    Not where activations are recomputed, as layers then get no cache, nor where a token's place
    counts otherwise in a pass of other lengths.
    """
    text = model.config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    is_relative = not getattr(text, "alibi", False) and rope.get("rope_type") not in BY_LENGTH
    is_recomputing = model.training and model.is_gradient_checkpointing
    is_sdpa = model.config._attn_implementation == "sdpa"  # the mask is [B, 1, R, S]
    return is_sdpa and is_relative and not is_recomputing and attends_to_all(model)


def attends_to_all(model: Any) -> bool:
    """Whether every layer attends to all tokens so far: a mask may then leave some of them out."""
    text = model.config.get_text_config()
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        return not model._is_stateful and getattr(text, "sliding_window", None) is None
    return not model._is_stateful and set(kinds) == {"full_attention"}


def has_attention_alone(model: Any) -> bool:
    """Whether every layer attends to all tokens so far, or to a window of them; none recurs."""
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"]
    return not model._is_stateful and ATTENTION.issuperset(kinds)
