"""Keys and values of a batch whose rows come and go, each at a length of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache


@dataclass(frozen=True)
class _Place:
    """Where a pass writes: query q of row b is token `positions_BQ[b, q]` of slot `slots_B1[b]`.

    `rows` are the same slots, as a slice where they are the first ones: that reads without a copy.
    """

    slots_B1: torch.Tensor
    positions_BQ: torch.Tensor
    rows: slice | torch.Tensor
    width: int


class SlotCache(Cache):
    """A transformers cache of `num_slots` sequences of up to `num_positions` tokens.

    A slot holds token t of its sequence at position t, so that rows of any length share a batch
    without padding on the left. A slot keeps what it held when its sequence has left: the next
    sequence that begins alike takes the keys and values over (`longest_held`, `copy`).
    """

    def __init__(self, num_slots: int, num_positions: int) -> None:
        super().__init__(layers=[])
        self._ids_RT = np.zeros((num_slots, num_positions), dtype=np.int32)
        self._num_held_R = np.zeros(num_slots, dtype=np.int64)
        # By layer, each [R, heads, T, head size]; made by the first pass.
        self._keys: dict[int, torch.Tensor] = {}
        self._values: dict[int, torch.Tensor] = {}
        self._place: _Place | None = None

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

    def copy(self, sources: Sequence[int], targets: Sequence[int], lengths: Sequence[int]) -> None:
        """The first `lengths` tokens of slots `sources` into slots `targets`, all at once.

        A slot may be source and target.
        """
        if not sources:
            return
        self._ids_RT[targets] = self._ids_RT[sources]
        self._num_held_R[targets] = lengths
        moves = [
            (source, target)
            for source, target, length in zip(sources, targets, lengths, strict=True)
            if length and source != target
        ]
        if not moves:
            return
        from_slots, to_slots = ([move[i] for move in moves] for i in (0, 1))
        width = max(lengths)
        for states in (self._keys, self._values):
            for state in states.values():
                moved = state[from_slots, :, :width]  # a copy, before anything is written
                state[to_slots, :, :width] = moved

    def exchange(self, some: Sequence[int], others: Sequence[int]) -> None:
        """Swaps the contents of the slots, pair by pair."""
        sources = [*others, *some]
        self.copy(sources, [*some, *others], self._num_held_R[sources].tolist())

    def enter(
        self,
        slots: Sequence[int],
        token_ids: Sequence[Sequence[int]],
        starts: Sequence[int],
        device: torch.device,
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
        slots_B = torch.tensor(slots, device=device)
        is_leading = list(slots) == list(range(len(slots)))
        positions_BQ = positions_BQ.to(device)
        self._place = _Place(
            slots_B[:, None], positions_BQ, slice(len(slots)) if is_leading else slots_B, width
        )
        return {
            "input_ids": ids_BQ.to(device),
            "position_ids": positions_BQ,
            "attention_mask": is_visible_BQT[:, None].to(device),
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
        assert self._place is not None, "a pass begins with `enter`"
        return (
            self._written(self._keys, layer_idx, key_states, self._place),
            self._written(self._values, layer_idx, value_states, self._place),
        )

    def _written(
        self, states: dict[int, torch.Tensor], layer: int, new: torch.Tensor, place: _Place
    ) -> torch.Tensor:
        if layer not in states:
            # Zeros: masked positions have weight 0, which would make NaN of what memory held.
            shape = (len(self._ids_RT), new.shape[1], self._ids_RT.shape[1], new.shape[3])
            states[layer] = torch.zeros(shape, dtype=new.dtype, device=new.device)
        states[layer][place.slots_B1, :, place.positions_BQ] = new.transpose(1, 2)
        return states[layer][place.rows, :, : place.width]

    def forget(self) -> None:
        """No slot holds anything that a later sequence could take over."""
        self._num_held_R[:] = 0

    def release(self) -> None:
        """Gives the memory back; the next pass takes it again."""
        self.forget()
        self._keys.clear()
        self._values.clear()
