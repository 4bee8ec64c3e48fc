"""Slots against a plain table of what each should hold, through random passes and moves."""

import random

import torch

from vineppo.engine.slot_cache import SlotCache

NUM_SLOTS, NUM_POSITIONS = 6, 20
CPU = torch.device("cpu")


def states_of(token_ids):
    """Keys that tell their tokens, [B, heads, Q, head size]."""
    length = max(map(len, token_ids))
    ids_BQ = torch.tensor([[*ids, *[-7] * (length - len(ids))] for ids in token_ids])
    return ids_BQ[:, None, :, None].expand(-1, 2, -1, 3).float()


class Table:
    """A `SlotCache` beside the plain lists of token ids that it should hold."""

    def __init__(self, seed):
        self.stream = random.Random(seed)
        self.cache = SlotCache(NUM_SLOTS, NUM_POSITIONS, CPU)
        self.held = [[] for _ in range(NUM_SLOTS)]

    def append(self, slots, token_ids):
        starts = [len(self.held[slot]) for slot in slots]
        self.cache.enter(slots, token_ids, starts)
        keys, values = self.cache.extended(0, states_of(token_ids), -states_of(token_ids))
        assert torch.equal(keys, -values)
        mask = self.cache.is_visible_B1QT
        for b, (slot, ids) in enumerate(zip(slots, token_ids, strict=True)):
            self.held[slot] += ids
            for q in range(len(ids)):
                seen = keys[b, 0, :, 0][mask[b, 0, q]].int().tolist()
                assert seen == self.held[slot][: starts[b] + q + 1]

    def random_append(self):
        slots = self.stream.sample(range(NUM_SLOTS), self.stream.randrange(1, NUM_SLOTS))
        if self.stream.random() < 0.5:
            slots = sorted(range(len(slots)))
        most = NUM_POSITIONS - 1  # the last position is for padding
        fitting = [slot for slot in slots if len(self.held[slot]) < most]
        if fitting:
            rooms = [most - len(self.held[slot]) for slot in fitting]
            lengths = [min(room, self.stream.randrange(1, 6)) for room in rooms]
            self.append(fitting, [[self.stream.randrange(3) for _ in range(n)] for n in lengths])

    def random_copy(self):
        targets = self.stream.sample(range(NUM_SLOTS), 3)
        sources = [self.stream.randrange(NUM_SLOTS) for _ in targets]
        lengths = [self.stream.randrange(len(self.held[source]) + 1) for source in sources]
        self.cache.copy(list(zip(sources, targets, lengths, strict=True)))
        kept = [self.held[source][:length] for source, length in zip(sources, lengths, strict=True)]
        for target, ids in zip(targets, kept, strict=True):
            self.held[target] = list(ids)

    def random_exchange(self):
        one, two, three, four = self.stream.sample(range(NUM_SLOTS), 4)
        self.cache.exchange([(one, three), (two, four)])
        for a, b in ((one, three), (two, four)):
            self.held[a], self.held[b] = self.held[b], self.held[a]

    def check_longest(self):
        wanted = [self.stream.randrange(3) for _ in range(self.stream.randrange(6))]
        slot, length = self.cache.longest_held(tuple(wanted))
        assert self.held[slot][:length] == wanted[:length]
        assert length == max(common(held, wanted) for held in self.held)


def common(held, wanted):
    pairs = zip(held, wanted, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(held), len(wanted)))


def test_slots_hold_what_a_plain_table_holds():
    for seed in range(30):
        table = Table(seed)
        for _ in range(60):
            act = table.stream.choice(
                [table.random_append, table.random_append, table.random_copy, table.random_exchange]
            )
            act()
            table.check_longest()


def test_nothing_is_found_after_forgetting():
    table = Table(0)
    table.append([0, 1], [[1, 2, 0], [1]])
    assert table.cache.longest_held((1, 2, 2)) == (0, 2)
    table.cache.forget()
    assert table.cache.longest_held((1, 2, 2))[1] == 0
    table.held = [[] for _ in range(NUM_SLOTS)]
    table.append([0], [[2, 2]])
    table.cache.release()
    table.held = [[] for _ in range(NUM_SLOTS)]
    table.append([0, 3], [[1, 1], [2]])
