"""Attention of rows that get a token each, behind prefixes that they share."""

from typing import Any

import numpy as np
import torch

from vineppo.engine.slot_cache import KeysAndValues, SlotCache

BLOCK = 16  # tokens


def closing_moves(is_gone_N: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """How many are left, the places to fill among the first of them, and who moves there."""
    num_left = len(is_gone_N) - int(is_gone_N.sum())
    free = np.flatnonzero(is_gone_N[:num_left])
    return num_left, free, num_left + np.flatnonzero(~is_gone_N[num_left:])


class OwnBlocks:
    """Keys and values of what rows have sampled, in blocks of `BLOCK` tokens; those in use lead.

    Rows are of any length, and a pass reads the blocks that they have.
    """

    def __init__(self, num_rows: int, num_positions: int) -> None:
        self.states = KeysAndValues(num_rows * -(-num_positions // BLOCK), BLOCK)
        self.row_N = np.zeros(0, dtype=np.int64)
        self.index_N = np.zeros(0, dtype=np.int64)  # which block of its row it is

    def make_room(self, num_tokens_B: np.ndarray) -> None:
        """So many tokens of every row."""
        held_B = np.bincount(self.row_N, minlength=len(num_tokens_B))
        new_B = -(-num_tokens_B // BLOCK) - held_B
        rows = np.repeat(np.arange(len(new_B)), new_B)
        before = np.repeat(new_B.cumsum() - new_B - held_B, new_B)
        self.row_N = np.concatenate([self.row_N, rows])
        self.index_N = np.concatenate([self.index_N, np.arange(len(rows)) - before])
        self.states.reserve(len(self.row_N))

    def follow(self, new_row_B: np.ndarray) -> None:
        """Row b is now `new_row_B[b]`, or gone (−1)."""
        self.row_N = new_row_B[self.row_N]
        num_left, free, movers = closing_moves(self.row_N < 0)
        self.states.copy(movers.tolist(), free.tolist(), BLOCK)
        for column in (self.row_N, self.index_N):
            column[free] = column[movers]
        self.row_N, self.index_N = self.row_N[:num_left], self.index_N[:num_left]

    def release(self) -> None:
        self.row_N, self.index_N = self.row_N[:0], self.index_N[:0]
        self.states.release()


class Decoding:
    """The `layout` of passes of one token a row, behind prefixes that rows share.

    Row b attends to its prefix and to its own tokens: its softmax is over both, and what it takes
    is Σ_prefix p v + Σ_own p v. The rows of a slot lie side by side, [G, W], so that its keys and
    values are read once for all of them, where they are ("Hydragen", arXiv:2402.05099). With K
    continuations of every state most keys are a prefix's.
    """

    def __init__(
        self,
        prefixes: SlotCache,
        own: OwnBlocks,
        slot_B: np.ndarray,
        device: torch.device,
    ) -> None:
        """Row b is behind the prefix in slot `slot_B[b]`."""
        counts_G = np.bincount(slot_B)
        self._width = int(counts_G.max())
        order_B = slot_B.argsort(kind="stable")
        rank_B = np.empty_like(slot_B)
        rank_B[order_B] = np.arange(len(slot_B)) - (counts_G.cumsum() - counts_G)[slot_B[order_B]]
        place_B = slot_B * self._width + rank_B
        row_at = np.zeros(len(counts_G) * self._width, dtype=np.int64)
        row_at[place_B] = np.arange(len(slot_B))
        held_G = prefixes.num_held_R[: len(counts_G)]
        self._read = slice(len(counts_G)), slice(None), slice(int(held_G.max()))
        block_BJ = np.full((len(slot_B), int(own.index_N.max()) + 1), -1)
        block_BJ[own.row_N, own.index_N] = np.arange(len(own.row_N))
        self._prefixes, self._own = prefixes.states, own.states
        self.num_layers = 0  # that have attended, in all passes

        def put(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        self._place_B, self._row_at = put(place_B), put(row_at)
        self._row_N, self._place_N = (
            put(own.row_N),
            put(own.row_N * block_BJ.shape[1] + own.index_N),
        )
        self._block_BJ = put(block_BJ)
        self._is_none_BJ111 = (self._block_BJ < 0)[:, :, None, None, None]
        self._any_block_L = self._block_BJ.clamp(min=0).flatten()
        self._is_hidden_G11P = _beyond(put(held_G), int(held_G.max()))

    def enter(self, num_own_B: torch.Tensor) -> None:
        """The next pass is of the token that follows `num_own_B` of its row's own."""
        block_B1 = self._block_BJ.gather(1, num_own_B[:, None] // BLOCK)
        self._written = block_B1[:, 0], slice(None), num_own_B % BLOCK
        self._is_hidden_B11T = _beyond(num_own_B + 1, BLOCK * self._block_BJ.shape[1])

    def attend(
        self,
        module: Any,
        states: tuple[torch.Tensor, ...],
        scaling: float | None = None,
        **_options: Any,
    ) -> torch.Tensor:
        """Of queries, keys and values [B, heads, 1, d], what each token takes: [B, 1, heads, d]."""
        self.num_layers += 1
        query, key, value = states
        count, num_heads, _, size = query.shape
        of_layer = self._own.of_layer(module.layer_idx, key, value)
        for state, new in zip(of_layer, (key, value), strict=True):
            state[self._written] = new[:, :, 0]
        own_keys, own_values = (state[: len(self._row_N)] for state in of_layer)
        keys, values = (
            state[self._read] for state in self._prefixes.of_layer(module.layer_idx, key, value)
        )
        query_BhRd = query.view(count, key.shape[1], -1, size)  # R heads share keys
        behind_GhRP = _dot(self._side_by_side(query_BhRd), keys)
        behind_GhRP.masked_fill_(self._is_hidden_G11P, -torch.inf)
        own_BJhRt = self._by_row(_dot(query_BhRd.index_select(0, self._row_N), own_keys))
        own_BhRT = own_BJhRt.permute(0, 2, 3, 1, 4).flatten(3, 4)
        own_BhRT.masked_fill_(self._is_hidden_B11T, -torch.inf)
        scale = size**-0.5 if scaling is None else scaling
        scores_BhRS = torch.cat([self._row_by_row(behind_GhRP), own_BhRT], dim=-1).mul_(scale)
        weights = scores_BhRS.softmax(-1).to(value.dtype)
        behind, mine = weights.split([keys.shape[2], own_BhRT.shape[3]], dim=-1)
        taken = self._row_by_row(torch.matmul(self._side_by_side(behind), values))
        taken_NhRd = torch.matmul(self._of_blocks(mine), own_values)
        taken_BJhRd = self._by_row(taken_NhRd).masked_fill_(self._is_none_BJ111, 0.0)
        taken = taken + taken_BJhRd.sum(1)
        return taken.reshape(count, 1, num_heads, -1)

    def _side_by_side(self, x_BhRe: torch.Tensor) -> torch.Tensor:
        """[G, h, W · R, e]"""
        x_GWhRe = x_BhRe.index_select(0, self._row_at).unflatten(0, (-1, self._width))
        return x_GWhRe.transpose(1, 2).flatten(2, 3)

    def _row_by_row(self, x_Ghre: torch.Tensor) -> torch.Tensor:
        """[B, h, R, e] of [G, h, W · R, e]"""
        x_GhWRe = x_Ghre.unflatten(2, (self._width, -1))
        return x_GhWRe.transpose(1, 2).flatten(0, 1).index_select(0, self._place_B)

    def _by_row(self, x_NhRe: torch.Tensor) -> torch.Tensor:
        """[B, J, h, R, e] of blocks [N, h, R, e]; where a row has none, of any."""
        return x_NhRe.index_select(0, self._any_block_L).unflatten(0, self._block_BJ.shape)

    def _of_blocks(self, x_BhRT: torch.Tensor) -> torch.Tensor:
        """[N, h, R, t] of rows [B, h, R, T]"""
        x_BJhRt = x_BhRT.unflatten(3, (-1, BLOCK)).permute(0, 3, 1, 2, 4)
        return x_BJhRt.flatten(0, 1).index_select(0, self._place_N)


def _beyond(lengths_B: torch.Tensor, width: int) -> torch.Tensor:
    """Which of `width` positions lie behind each length, [B, 1, 1, width]."""
    places = torch.arange(width, device=lengths_B.device)
    return (places >= lengths_B[:, None])[:, None, None]


def _dot(query_BhRd: torch.Tensor, keys_BhTd: torch.Tensor) -> torch.Tensor:
    """q · k in float32: rounded to bfloat16, scores would move by a percent and more."""
    query, keys = query_BhRd.flatten(0, 1), keys_BhTd.flatten(0, 1).transpose(1, 2)
    if query.is_cuda and query.dtype != torch.float32:
        found = torch.bmm(query, keys, out_dtype=torch.float32)
    else:
        found = torch.bmm(query.float(), keys.float())
    return found.unflatten(0, query_BhRd.shape[:2])
