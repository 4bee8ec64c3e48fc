"""A token a row behind shared prefixes, against attention over the whole sequence of every row."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from vineppo.recipes.transformers_engine import BLOCK, Decoding, OwnBlocks, SlotCache

NUM_ROWS, NUM_PREFIXES, LONGEST, HEADS, SHARED_HEADS, SIZE = 12, 5, 80, 4, 2, 8
CPU = torch.device("cpu")
LAYER = SimpleNamespace(layer_idx=3)


class Rows:
    """Rows that sample random keys; all that a row should see is kept beside."""

    def __init__(self, seed):
        self.stream = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.prefixes = SlotCache(NUM_PREFIXES, LONGEST, CPU)
        self.own = OwnBlocks(NUM_ROWS, LONGEST)
        self.held = [self.fill(slot) for slot in range(NUM_PREFIXES)]
        self.slots, self.seen = [], []  # of every row, [2, heads, T, d]

    def random(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def fill(self, slot):
        """Keys and values [2, heads, T, d] of a prefix of 0 to 30 tokens in a slot."""
        length = self.stream.randrange(31)
        states = self.random(2, 1, SHARED_HEADS, length, SIZE)
        if length:
            self.prefixes.enter([slot], [[1] * length], [0])
            self.prefixes.extended(LAYER.layer_idx, *states)
        return states[:, 0]

    @property
    def num_own_B(self):
        lengths = [
            seen.shape[2] - self.held[slot].shape[2]
            for slot, seen in zip(self.slots, self.seen, strict=True)
        ]
        return np.array(lengths, dtype=np.int64)

    def join(self):
        while len(self.slots) < NUM_ROWS and self.stream.random() < 0.7:
            self.slots.append(self.stream.randrange(NUM_PREFIXES))
            self.seen.append(self.held[self.slots[-1]])

    def leave(self, most_own):
        """Those that are long and some others go, and the rest stand in another order."""
        kept = [
            b for b, n in enumerate(self.num_own_B) if n <= most_own and self.stream.random() < 0.9
        ]
        self.stream.shuffle(kept)
        new_row_B = np.full(len(self.slots), -1)
        new_row_B[kept] = np.arange(len(kept))
        self.own.follow(new_row_B)
        self.slots, self.seen = ([of_rows[b] for b in kept] for of_rows in (self.slots, self.seen))

    def step(self, num_passes):
        num_own_B = self.num_own_B
        self.own.make_room(num_own_B + num_passes)
        assert len(self.own.row_N) == sum(-(-(num_own_B + num_passes) // BLOCK))
        decoding = Decoding(self.prefixes, self.own, np.array(self.slots), CPU)
        for i in range(num_passes):
            decoding.enter(torch.from_numpy(num_own_B + i))
            query_BhQd = self.random(len(self.slots), HEADS, 1, SIZE)
            new = self.random(2, len(self.slots), SHARED_HEADS, 1, SIZE)
            found = decoding.attend(LAYER, (query_BhQd, *new), scaling=0.3)
            for b, query in enumerate(query_BhQd):
                self.seen[b] = torch.cat([self.seen[b], new[:, b]], dim=2)
                expected = scaled_dot_product_attention(
                    query, *self.seen[b], scale=0.3, enable_gqa=True
                )
                torch.testing.assert_close(found[b, 0], expected[:, 0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_passes", [1, BLOCK])
def test_rows_take_what_attention_over_their_sequences_gives(num_passes):
    for seed in range(5):
        rows = Rows(seed)
        for _ in range(80 // num_passes):
            rows.join()
            if rows.slots:
                rows.step(num_passes)
            rows.leave(most_own=LONGEST - num_passes)


def test_scores_are_not_rounded_to_bfloat16():
    """No further from exact attention than transformers' own is, but for the weights' rounding."""
    rows = Rows(0)
    query, keys, values = 3 * rows.random(3, 1, SHARED_HEADS, 40, SIZE).bfloat16()
    rows.prefixes.enter([0], [[1] * 39], [0])
    rows.prefixes.states.release()
    rows.prefixes.states.reserve(NUM_PREFIXES)
    rows.prefixes.extended(0, keys[:, :, :39], values[:, :, :39])
    rows.own.make_room(np.array([1]))
    decoding = Decoding(rows.prefixes, rows.own, np.array([0]), CPU)
    decoding.enter(torch.tensor([0]))
    last = (query[:, :, 39:], keys[:, :, 39:], values[:, :, 39:])
    found = decoding.attend(SimpleNamespace(layer_idx=0), last)[0, 0].double()
    exact = scaled_dot_product_attention(query[:, :, 39:].double(), keys.double(), values.double())
    plain = scaled_dot_product_attention(query[:, :, 39:], keys, values)
    error, allowed = ((x - exact[0, :, 0]).abs().mean() for x in (found, plain[0, :, 0].double()))
    assert error < 3 * allowed
