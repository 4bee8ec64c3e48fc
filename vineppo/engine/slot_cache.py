"""Keys and values of a batch whose rows come and go, each at a length of its own."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache


class SlotCache(Cache):
    """A transformers cache of `num_slots` sequences of up to `num_positions` tokens.

    A slot holds token t of its sequence at position t, so that rows of any length share a batch
    without padding on the left. A slot keeps what it held when its sequence has left: the next
    sequence that begins alike takes the keys and values over (`longest_held`, `copy`).
    """

    def __init__(self, num_slots: int, num_positions: int, device: torch.device) -> None:
        super().__init__(layers=[])
        self._device = device
        self._ids_RT = np.zeros((num_slots, num_positions), dtype=np.int32)
        self._num_held_R = np.zeros(num_slots, dtype=np.int64)
        # "keys" and "values" by layer, each [R, heads, T, head size]; made by the first pass.
        self._states: dict[tuple[str, int], torch.Tensor] = {}
        self._written: Any  # the indices that the pass entered last writes to, and those it reads
        self._read: Any

    def longest_held(self, token_ids: Sequence[int]) -> tuple[int, int]:
        """The slot that holds the longest beginning of `token_ids`, and how long that is."""
        if not token_ids:
            return 0, 0
        ids_T = np.asarray(token_ids, dtype=np.int32)
        differs_RT = self._ids_RT[:, : len(ids_T)] != ids_T
        agree_R = np.where(differs_RT.any(1), differs_RT.argmax(1), len(ids_T))
        lengths_R = np.minimum(agree_R, self._num_held_R)
        slot = int(lengths_R.argmax())
        return slot, int(lengths_R[slot])

    def copy(self, moves: Sequence[tuple[int, int, int]]) -> None:
        """The first tokens of one slot into another, for every (source, target, length) at once.

        A slot may be source and target.
        """
        if not moves:
            return
        sources, targets, lengths = (list(column) for column in zip(*moves, strict=True))
        self._ids_RT[targets] = self._ids_RT[sources]
        self._num_held_R[targets] = lengths
        pairs = [(source, target) for source, target, n in moves if n and source != target]
        if not pairs:
            return
        sources, targets = (list(column) for column in zip(*pairs, strict=True))
        width = max(lengths)
        for state in self._states.values():
            moved = state[sources, :, :width]  # a copy, before anything is written
            state[targets, :, :width] = moved

    def exchange(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Swaps the contents of the slots of every pair."""
        both = [*pairs, *((second, first) for first, second in pairs)]
        self.copy([(source, target, int(self._num_held_R[source])) for source, target in both])

    def enter(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], starts: Sequence[int]
    ) -> dict[str, Any]:
        """The inputs of a pass that appends `token_ids[b]` to slot `slots[b]` at `starts[b]`.

        Shorter rows are padded on the right; what padding leaves in a slot is overwritten before it
        is ever attended to.
        """
        length = max(map(len, token_ids))
        ids_BQ = torch.tensor([[*ids, *[0] * (length - len(ids))] for ids in token_ids])
        positions_BQ = torch.tensor(starts)[:, None] + torch.arange(length)
        # No sequence ever reaches the last position: it is there for padding.
        positions_BQ = positions_BQ.clamp(max=self._ids_RT.shape[1] - 1)
        for slot, ids, start in zip(slots, token_ids, starts, strict=True):
            self._ids_RT[slot, start : start + len(ids)] = ids
            self._num_held_R[slot] = start + len(ids)
        width = int(positions_BQ.max()) + 1
        is_visible_BQT = torch.arange(width) <= positions_BQ[:, :, None]
        slots_B = torch.tensor(slots, device=self._device)
        positions_BQ = positions_BQ.to(self._device)
        is_leading = list(slots) == list(range(len(slots)))
        rows = slice(len(slots)) if is_leading else slots_B  # a slice reads without a copy
        self._written = slots_B[:, None], slice(None), positions_BQ
        self._read = rows, slice(None), slice(width)
        return {
            "input_ids": ids_BQ.to(self._device),
            "position_ids": positions_BQ,
            "attention_mask": is_visible_BQT[:, None].to(self._device),
            "past_key_values": self,
            "use_cache": True,
        }

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_args: Any,
        **_kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What a layer calls with its new keys and values, [B, heads, Q, head size]."""
        return (
            self._extended(("keys", layer_idx), key_states),
            self._extended(("values", layer_idx), value_states),
        )

    def _extended(self, name: tuple[str, int], new: torch.Tensor) -> torch.Tensor:
        if name not in self._states:
            # Zeros: masked positions have weight 0, which would make NaN of what memory held.
            shape = (len(self._ids_RT), new.shape[1], self._ids_RT.shape[1], new.shape[3])
            self._states[name] = torch.zeros(shape, dtype=new.dtype, device=new.device)
        state = self._states[name]
        state[self._written] = new.transpose(1, 2)
        return state[self._read]

    def forget(self) -> None:
        """No slot holds anything that a later sequence could take over."""
        self._num_held_R[:] = 0

    def release(self) -> None:
        """Gives the memory back; the next pass takes it again."""
        self.forget()
        self._states.clear()
