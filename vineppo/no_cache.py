"""Passes over whole sequences, which keep no keys and values, without a question to the device."""

from typing import Any

import torch
from transformers.cache_utils import Cache

# What `NoCache` is for: layers whose memory are the keys and values of tokens.
ATTENTION = {"full_attention", "sliding_attention"}


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
