"""Which sequences go into which update and micro-batch. Pure; changes speed and memory only."""

import math
import random
from collections.abc import Hashable, Sequence
from itertools import chain

import numpy as np
import torch

from vineppo.types import PackedTokens, TokenSequence, TrainBatch

MAX_PADDING = 0.05  # of the tokens of passes that have padding
# Here passes that share no prompts stay padded: laying out tokens for attention costs more.
# On a GPU packing was faster by micro-batches of 32 (experiments/09_gpu).
PADDED_DEVICES = frozenset({"cpu"})
MIN_SAVED = 0.25  # of a pass's tokens, for which each prompt passes once
_TIGHTNESS = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)


def grouped_minibatches(groups: Sequence[Hashable], batch_size: int, seed: int) -> list[list[int]]:
    """Shuffled groups of sequences cut into updates; the last may be smaller: nothing is dropped.

    Sequences of one group follow each other, in their order. A group is cut where an update is
    full. Groups "aabb" in updates of 2 are [[2, 3], [0, 1]] or [[0, 1], [2, 3]]; `range(5)`, where
    each is alone, has updates of 2, 2 and 1.
    """
    members: dict[Hashable, list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    shuffled = list(members.values())
    random.Random(seed).shuffle(shuffled)
    order = list(chain.from_iterable(shuffled))
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def ranks_share(
    lengths: Sequence[int],
    micro_batch_size: int,
    rank: int = 0,
    num_ranks: int = 1,
    max_padding: float = MAX_PADDING,
) -> list[list[int]]:
    """The micro-batches of one rank: indices of sequences dealt out by length, longest first.

    A micro-batch has at most as many tokens, padding included, as `micro_batch_size` of the longest
    sequence. It has fewer if padding would be more than `max_padding` of all tokens. Every rank
    gets the same number of micro-batches, as the collective operations of a sharded model must
    meet; the last may be empty.
    Lengths [3, 9, 4, 8] in micro-batches of 2 give [[1, 3], [2], [0]], with 1 padding token in 25,
    as [[1, 3], [2, 0]] would have 2 in 26; [2, 2, 2, 2, 8] in micro-batches of 1 give
    [[4], [0, 1, 2, 3]]. On 2 ranks [3, 9, 4] in micro-batches of 2 give [[1], [0]] and [[2], []].
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    # What the ranks process side by side has nearly one length.
    rows = [order[i : i + num_ranks] for i in range(0, len(order), num_ranks)]
    cuts = _cut([lengths[row[0]] for row in rows], micro_batch_size, max_padding)
    return [[row[rank] for row in rows[a:b] if rank < len(row)] for a, b in cuts]


def micro_batches_of(
    sequences: Sequence[TokenSequence],
    micro_batch_size: int,
    rank: int,
    num_ranks: int,
    device: torch.device,
    packs: bool,
) -> list[list[int]]:
    """`ranks_share`, without its bound on padding if passes are packed, which have none.

    If a model `packs` and whole groups in a pass, each prompt once, save `MIN_SAVED` of the tokens
    of the rank that has most, groups stay together. Every rank comes to the same decision.
    """
    lengths, size = list(map(len, sequences)), micro_batch_size
    limit = 1.0 if packs and device.type not in PADDED_DEVICES else MAX_PADDING
    by_length = [ranks_share(lengths, size, r, num_ranks, limit) for r in range(num_ranks)]
    if not packs or not sequences:
        return by_length[rank]
    by_prompt = _shares_by_prompt(sequences, size, num_ranks)

    def cost(shares_R: list[list[list[int]]]) -> int:
        passes_R = [[[sequences[i] for i in b] for b in share] for share in shares_R]
        return max(sum(num_tokens(b, is_worth_sharing(b)) for b in passes) for passes in passes_R)

    is_less = cost(by_prompt) <= (1 - MIN_SAVED) * cost(by_length)
    return (by_prompt if is_less else by_length)[rank]


def _shares_by_prompt(
    sequences: Sequence[TokenSequence], micro_batch_size: int, num_ranks: int
) -> list[list[list[int]]]:
    """Whole groups dealt out to the ranks, longest first, each rank's cut into micro-batches.

    Rows keep keys, values and logits of their own, so they bound a micro-batch.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for index in sorted(range(len(sequences)), key=lambda i: (-len(sequences[i]), i)):
        groups.setdefault(sequences[index].prompt_ids, []).append(index)
    most = micro_batch_size * max(map(len, sequences))

    def fits(indices: list[int]) -> bool:
        prompt = max(len(sequences[i].prompt_ids) for i in indices)
        response = max(len(sequences[i].response_ids) for i in indices)
        return len(indices) * (prompt + response) <= most

    shares: list[list[list[int]]] = []
    for r in range(num_ranks):
        share: list[list[int]] = []
        for index in chain.from_iterable(list(groups.values())[r::num_ranks]):
            if share and fits([*share[-1], index]):
                share[-1].append(index)
            else:
                share.append([index])
        shares.append(share)
    count = max(map(len, shares))
    return [share + [[] for _ in range(count - len(share))] for share in shares]


def _cut(descending: Sequence[int], size: int, max_padding: float) -> list[tuple[int, int]]:
    """Runs of at most `size` times the first length.

    A run ends where a length falls below the lowest share of its first that limits padding enough.
    """
    total, most = sum(descending), size * max(descending, default=0)
    for tightness in _TIGHTNESS:
        cuts, start = [], 0
        for i, length in enumerate(descending):
            is_full = (i - start + 1) * descending[start] > most
            if is_full or length < tightness * descending[start]:
                cuts.append((start, i))
                start = i
        cuts.append((start, len(descending)))
        padded = sum((b - a) * descending[a] for a, b in cuts)
        if (padded - total) / max(padded, 1) <= max_padding:
            break
    return cuts


def collate(
    sequences: Sequence[TokenSequence],
    device: torch.device,
    columns: Sequence[str] = (),
    packs: bool = False,
) -> TrainBatch:
    """Pads on the right; see `TrainBatch` for the alignment. No sequences: one row of padding.

    For a model that `packs` the batch has its `packed` tokens besides, but on `PADDED_DEVICES` only
    if each prompt once saves `MIN_SAVED` of them. An environment's tokens are no response: nothing
    is computed for them, and no column is theirs.
    """
    shares_prompts = packs and is_worth_sharing(sequences)
    sequences = sequences or [TokenSequence((0,), (), tokens_T=dict.fromkeys(columns, ()))]
    starts_B1 = np.array([[len(sequence.prompt_ids)] for sequence in sequences])
    ends_B1 = np.array([[len(sequence)] for sequence in sequences])
    positions_T = np.arange(ends_B1.max())
    is_token_BT = positions_T < ends_B1
    is_response_BT = is_token_BT & (positions_T >= starts_B1)
    for row, sequence in enumerate(sequences):
        if sequence.turns:
            is_response_BT[row, len(sequence.prompt_ids) : len(sequence)] = sequence.is_action_T

    def placed(is_there_BT: np.ndarray, values: Sequence[float], dtype: type) -> torch.Tensor:
        full_BT: np.ndarray = np.zeros(is_there_BT.shape, dtype)
        full_BT[is_there_BT] = np.array(values, dtype)
        return torch.from_numpy(full_BT).to(device)

    def column(name: str) -> torch.Tensor:
        flat = list(chain.from_iterable(s.of_actions(s.tokens_T[name]) for s in sequences))
        return placed(is_response_BT, flat, np.bool_ if name.startswith("is_") else np.float32)

    token_ids = [i for s in sequences for i in (*s.prompt_ids, *s.response_ids)]
    is_packed = shares_prompts or (packs and device.type not in PADDED_DEVICES)
    packed = pack(sequences, is_response_BT, shares_prompts) if is_packed else None
    return TrainBatch(
        token_ids_BT=placed(is_token_BT, token_ids, np.int64),
        response_mask_BT=torch.from_numpy(is_response_BT).to(device),
        response_index_N=torch.from_numpy(np.flatnonzero(is_response_BT)).to(device),
        num_tokens=num_tokens(sequences, shares_prompts),
        columns_BT={name: column(name) for name in columns},
        packed=None if packed is None else packed.to(device),
    )


def num_tokens(sequences: Sequence[TokenSequence], shares_prompts: bool) -> int:
    """Tokens of a pass without padding.

    Three responses of 4, 4 and 3 tokens behind one prompt of 5 have 26, and shared 5 + 11.
    """
    if not shares_prompts:
        return sum(map(len, sequences))
    prompts = {sequence.prompt_ids for sequence in sequences}
    return sum(map(len, prompts)) + sum(len(sequence.response_ids) for sequence in sequences)


def is_worth_sharing(sequences: Sequence[TokenSequence]) -> bool:
    saves = num_tokens(sequences, True) <= (1 - MIN_SAVED) * num_tokens(sequences, False)
    return bool(sequences) and saves


def pack(
    sequences: Sequence[TokenSequence], is_response_BT: np.ndarray, shares_prompts: bool
) -> PackedTokens:
    """`PackedTokens`, on the CPU; `is_response_BT` marks the batch's response tokens."""
    behind_B = np.array([len(s.prompt_ids) if shares_prompts else 0 for s in sequences])
    rows_P = [(*s.prompt_ids, *s.response_ids) for s in sequences]
    index_B, tails_B = np.arange(len(sequences)), list[tuple[int, ...]]()
    if shares_prompts:
        number = {ids: p for p, ids in enumerate(dict.fromkeys(s.prompt_ids for s in sequences))}
        rows_P, tails_B = list(number), [s.response_ids for s in sequences]
        index_B = np.array([number[sequence.prompt_ids] for sequence in sequences])
    rows, responses = ((len(x), max(map(len, x), default=0)) for x in (rows_P, tails_B))
    lengths = np.array([len(ids) for ids in (*rows_P, *tails_B)])
    first_tokens = lengths.cumsum() - lengths
    cells = [p * rows[1] for p in range(rows[0])]
    cells += [rows[0] * rows[1] + b * responses[1] for b in range(responses[0])]
    within_M = np.arange(lengths.sum()) - first_tokens.repeat(lengths)
    place_M = np.repeat(cells, lengths) + within_M
    token_L = np.full(math.prod(rows) + math.prod(responses), len(place_M))
    token_L[place_M] = np.arange(len(place_M))
    before = np.concatenate([np.zeros(rows[0], int), behind_B[: responses[0]]])
    rows_N, places_N = np.nonzero(is_response_BT)
    before_N, behind_N = places_N - 1, behind_B[rows_N]
    states_N = np.where(
        before_N < behind_N,  # the prompt's last token
        first_tokens[index_B[rows_N]] + before_N,
        first_tokens[rows_N + (rows[0] if shares_prompts else 0)] + before_N - behind_N,
    )
    return PackedTokens(
        token_ids_M=torch.tensor(list(chain(*rows_P, *tails_B))),
        position_ids_M=torch.from_numpy(within_M + before.repeat(lengths)),
        place_M=torch.from_numpy(place_M),
        token_L=torch.from_numpy(token_L),
        state_index_N=torch.from_numpy(states_N),
        rows=rows,
        responses=responses,
        prompt_index_B=torch.from_numpy(index_B) if shares_prompts else None,
        prompt_lengths_B=torch.from_numpy(behind_B) if shares_prompts else None,
    )


def response_rows(
    tensors: Sequence[torch.Tensor], batch: TrainBatch, sequences: Sequence[TokenSequence]
) -> list[tuple[tuple[float, ...], ...]]:
    """Each response's rows of [B, T] tensors, one tuple per tensor; 0 for environments' tokens."""
    counts_B = batch.response_mask_BT.sum(1).tolist()
    columns = []
    for x_BT in tensors:
        x_N = x_BT.flatten()[batch.response_index_N.to(x_BT.device)].cpu()
        parts = zip(sequences, x_N.split(counts_B), strict=False)  # no sequences have a row
        columns.append([sequence.over_response(part.tolist()) for sequence, part in parts])
    return list(zip(*columns, strict=True))
