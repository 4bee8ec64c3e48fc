"""Keys and values of the prefixes that sampled rows continue."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from vineppo.no_cache import NoCache


class KeysAndValues:
    """Of every layer two tensors [slots, heads, T, head size], made by its first pass."""

    def __init__(self, most_slots: int, num_positions: int) -> None:
        self._most_slots, self._num_positions = most_slots, num_positions
        self.num_slots = 0
        self._by_layer: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def reserve(self, num_slots: int) -> None:
        """Room for so many slots, and for half as many more where there was less."""
        if num_slots > self.num_slots:
            self.num_slots = min(num_slots + num_slots // 2, self._most_slots)
            for layer, held in self._by_layer.items():
                self._by_layer[layer] = self._made(*held)
                for new, state in zip(self._by_layer[layer], held, strict=True):
                    new[: len(state)] = state

    def of_layer(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those that hold such keys and values as a pass has, [B, heads, Q, head size]."""
        if layer not in self._by_layer:
            self._by_layer[layer] = self._made(keys, values)
        return self._by_layer[layer]

    def _made(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Zeros: masked positions have weight 0, which would make NaN of what memory held.
        one, other = (
            like.new_zeros(self.num_slots, like.shape[1], self._num_positions, like.shape[3])
            for like in (keys, values)
        )
        return one, other

    def copy(self, sources: Sequence[int], targets: Sequence[int], width: int) -> None:
        """The first `width` tokens of slots into others, all at once: a slot may be both."""
        states = [state for pair in self._by_layer.values() for state in pair]
        if not sources or not states:
            return
        from_N, to_N = torch.tensor([sources, targets]).to(states[0].device)
        for state in states:
            moved = state[from_N, :, :width]  # a copy, before anything is written
            state[to_N, :, :width] = moved

    def release(self) -> None:
        self.num_slots = 0
        self._by_layer.clear()


class SlotCache:
    """Keys and values of `num_slots` prefixes of up to `num_positions` tokens.

    A slot holds token t of its prefix at position t, so that prefixes of any length share a pass
    without padding on the left. A slot keeps what it held when its prefix is not needed any more:
    the next one that begins alike takes the keys and values over (`longest_held`, `copy`).
    """

    def __init__(self, num_slots: int, num_positions: int, device: torch.device) -> None:
        self._device = device
        self._ids_RT = np.zeros((num_slots, num_positions), dtype=np.int32)
        self.num_held_R = np.zeros(num_slots, dtype=np.int64)
        self.states = KeysAndValues(num_slots, num_positions)
        self.num_layers = 0  # that have attended in the pass entered last
        self._written: Any  # the indices that it writes to, those that it reads, and their mask
        self._read: Any
        self.is_visible_B1QT: torch.Tensor

    def longest_held(self, token_ids: Sequence[int]) -> tuple[int, int]:
        """The slot that holds the longest beginning of `token_ids`, and how long that is."""
        num_slots = self.states.num_slots
        if not token_ids or not num_slots:
            return 0, 0
        ids_T = np.asarray(token_ids, dtype=np.int32)
        differs_RT = self._ids_RT[:num_slots, : len(ids_T)] != ids_T
        agree_R = np.where(differs_RT.any(1), differs_RT.argmax(1), len(ids_T))
        lengths_R = np.minimum(agree_R, self.num_held_R[:num_slots])
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
        self.num_held_R[targets] = lengths
        self.states.reserve(max(targets) + 1)
        pairs = [(source, target) for source, target, n in moves if n and source != target]
        self.states.copy([pair[0] for pair in pairs], [pair[1] for pair in pairs], max(lengths))

    def exchange(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Swaps the contents of the slots of every pair."""
        both = [*pairs, *((second, first) for first, second in pairs)]
        self.copy([(source, target, int(self.num_held_R[source])) for source, target in both])

    def enter(
        self, slots: Sequence[int], token_ids: Sequence[Sequence[int]], starts: Sequence[int]
    ) -> dict[str, Any]:
        """The inputs of a pass that appends `token_ids[b]` to slot `slots[b]` at `starts[b]`.

        Shorter rows are padded on the right; what padding leaves in a slot is overwritten before it
        is ever attended to.
        """
        self.states.reserve(max(slots) + 1)
        length = max(map(len, token_ids))
        ids_BQ = torch.tensor([[*ids, *[0] * (length - len(ids))] for ids in token_ids])
        positions_BQ = torch.tensor(starts)[:, None] + torch.arange(length)
        # No prefix ever reaches the last position: it is there for padding.
        positions_BQ = positions_BQ.clamp(max=self._ids_RT.shape[1] - 1)
        for slot, ids, start in zip(slots, token_ids, starts, strict=True):
            self._ids_RT[slot, start : start + len(ids)] = ids
            self.num_held_R[slot] = start + len(ids)
        width = int(positions_BQ.max()) + 1
        is_visible_BQT = torch.arange(width) <= positions_BQ[:, :, None]
        self.is_visible_B1QT = is_visible_BQT[:, None].to(self._device)
        slots_B = torch.tensor(slots, device=self._device)
        positions_BQ = positions_BQ.to(self._device)
        self._written = slots_B[:, None], slice(None), positions_BQ
        self._read = slots_B, slice(None), slice(width)
        self.num_layers = 0
        return {
            "input_ids": ids_BQ.to(self._device),
            "position_ids": positions_BQ,
            "past_key_values": NoCache(),
            "use_cache": False,
            "layout": self,
        }

    def attend(self, module: Any, states: tuple[torch.Tensor, ...], **options: Any) -> torch.Tensor:
        """Of queries, keys and values [B, heads, Q, d], what each takes: [B, Q, heads, d]."""
        self.num_layers += 1
        query, keys, values = states
        seen = self.extended(module.layer_idx, keys, values)
        return sdpa_attention_forward(module, query, *seen, self.is_visible_B1QT, **options)[0]

    def extended(
        self, layer: int, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the slots with new ones, [B, heads, Q, head size], written behind them."""
        held = self.states.of_layer(layer, keys, values)
        for state, new in zip(held, (keys, values), strict=True):
            state[self._written] = new.transpose(1, 2)
        return held[0][self._read], held[1][self._read]

    def forget(self) -> None:
        """No slot holds anything that a later prefix could take over."""
        self.num_held_R[:] = 0

    def release(self) -> None:
        """Gives the memory back; the next pass takes it again."""
        self.forget()
        self.states.release()
