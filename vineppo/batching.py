"""Which sequences go into which update and micro-batch. Pure; changes speed and memory only."""

import random
from collections.abc import Sequence

import torch

from vineppo.types import TrainBatch, TrainSequence


def shuffled_minibatches(num_sequences: int, batch_size: int, seed: int) -> list[list[int]]:
    """A seeded permutation of 0 … num_sequences−1 cut into updates; the last may be smaller.

    `shuffled_minibatches(5, 2, seed)` has lengths [2, 2, 1]: nothing is dropped.
    """
    order = list(range(num_sequences))
    random.Random(seed).shuffle(order)
    return [order[i : i + batch_size] for i in range(0, num_sequences, batch_size)]


def length_bucketed(lengths: Sequence[int], micro_batch_size: int) -> list[list[int]]:
    """Indices of sequences of similar length, `micro_batch_size` at a time, longest first.

    Longest first shows at once whether the memory suffices. Lengths [3, 9, 4, 8] in micro-batches
    of 2 give [[1, 3], [2, 0]], with 2 padding tokens in 24.
    """
    return ranks_share(lengths, micro_batch_size, 0, 1)


def ranks_share(
    lengths: Sequence[int], micro_batch_size: int, rank: int, num_ranks: int
) -> list[list[int]]:
    """The micro-batches of one rank: sequences dealt out by length, longest first.

    Every rank gets the same number of micro-batches, of which the last may be empty: the collective
    operations of a sharded model must meet. Lengths [3, 9, 4] in micro-batches of 2 on 2 ranks give
    [[1, 0]] and [[2]].
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    mine = order[rank::num_ranks]
    most = len(order[::num_ranks])
    return [mine[i : i + micro_batch_size] for i in range(0, most, micro_batch_size)]


def collate(sequences: Sequence[TrainSequence], device: torch.device) -> TrainBatch:
    """Pads on the right; see `TrainBatch` for the alignment. No sequences: one row of padding."""
    sequences = sequences or [TrainSequence.blank((0,), ())]
    length = max(len(sequence) for sequence in sequences)

    def padded(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> torch.Tensor:
        full = [[*row, *[0] * (length - len(row))] for row in rows]
        return torch.tensor(full, dtype=dtype, device=device)

    def response(attribute: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        rows = [[0] * len(s.prompt_ids) + list(getattr(s, attribute)) for s in sequences]
        return padded(rows, dtype)

    return TrainBatch(
        token_ids_BT=padded([[*s.prompt_ids, *s.response_ids] for s in sequences], torch.long),
        attention_mask_BT=padded([[1] * len(s) for s in sequences], torch.long),
        response_mask_BT=padded(
            [[0] * len(s.prompt_ids) + [1] * len(s.response_ids) for s in sequences], torch.bool
        ),
        old_logprobs_BT=response("old_logprobs_T"),
        ref_logprobs_BT=response("ref_logprobs_T"),
        advantages_BT=response("advantages_T"),
        is_trained_BT=response("is_trained_T", torch.bool),
        importance_BT=response("importance_T"),
        old_values_BT=response("old_values_T"),
        returns_BT=response("returns_T"),
        is_positive_B=torch.tensor([s.is_positive for s in sequences], device=device),
    )
