"""Which problems an iteration has, which sequences go into an update, which into a micro-batch.

What goes into a micro-batch changes speed and memory only. The rest depends on the run's seed and
progress alone.
"""

import math
import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vineppo.config.schema import AdamConfig, TrainConfig
from vineppo.distributed import num_ranks, rank
from vineppo.losses import Totals
from vineppo.types import PackedTokens, TokenSequence, TrainBatch, derive_seed

if TYPE_CHECKING:
    from vineppo.policy import Update

MAX_PADDING = 0.05  # of the tokens of passes that have padding
# Here passes that share no prompts stay padded: laying out tokens for attention costs more.
# On a GPU packing was faster by micro-batches of 32 (experiments/09_gpu).
PADDED_DEVICES = frozenset({"cpu"})
MIN_SAVED = 0.25  # of a pass's tokens, for which each prompt passes once
_TIGHTNESS = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.0)

Stats = list[dict[str, float]]


def rate_of(adam: AdamConfig, update: int, num_updates: int) -> float:
    """The learning rate of update 0 … num_updates−1: linear warm-up, then constant or linear to 0.

    Warm-up takes w = ceil(warmup_fraction · num_updates) updates; number u has peak · (u + 1)/w.
    "linear" then gives peak · (num_updates − u)/(num_updates − w). With 10 updates, warm-up 0.2 and
    peak 1: 0.5, 1, 1, 0.875, … , 0.125 for "linear".
    """
    peak = adam.learning_rate
    warmup = math.ceil(adam.warmup_fraction * num_updates - 1e-9)  # 0.07 · 100 is 7.000000000000001
    if update < warmup:
        return peak * (update + 1) / warmup
    if adam.schedule == "constant":
        return peak
    return peak * (num_updates - update) / (num_updates - warmup)


def problems_of_iteration(
    num_problems: int, num_prompts: int, iteration: int, run_seed: int
) -> list[int]:
    """Indices of the problems of an iteration (from 1), all different.

    The iterations cut an endless sequence of seeded permutations into pieces of `num_prompts`.
    Every problem comes once an epoch; where a piece spans two epochs, the second permutation is
    rearranged stably so that the piece holds no problem twice.
    """
    assert num_prompts <= num_problems, "a problem may not come twice"
    order: list[int] = []  # the sequence's start: whole epochs
    epoch = 0
    while len(order) < iteration * num_prompts:
        permutation = list(range(num_problems))
        random.Random(derive_seed(run_seed, "problem order", epoch)).shuffle(permutation)
        num_open = len(order) % num_prompts  # of the piece that the epoch before has begun
        begun = set(order[len(order) - num_open :])
        fresh = [i for i in permutation if i not in begun][: -num_open % num_prompts]
        taken = set(fresh)
        order += fresh + [i for i in permutation if i not in taken]
        epoch += 1
    return order[(iteration - 1) * num_prompts : iteration * num_prompts]


def with_redraws(chosen: Sequence[int], num_problems: int, iteration: int, seed: int) -> list[int]:
    """An iteration's problems, then all others in the order they may be drawn."""
    left = sorted(set(range(num_problems)) - set(chosen))
    random.Random(derive_seed(seed, "redraws", iteration)).shuffle(left)
    return [*chosen, *left]


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


@dataclass(frozen=True)
class UpdateSizes:
    """Counts over all sequences of an update, on all ranks."""

    trained: Totals
    response_tokens: int
    positive_tokens: int

    @classmethod
    def of(cls, sequences: Sequence[TokenSequence], max_tokens: int) -> "UpdateSizes":
        """By the columns "is_trained" and "is_positive"; without them all tokens train."""
        columns = [sequence.tokens_T for sequence in sequences]
        lengths = [sum(sequence.is_action_T) for sequence in sequences]
        trained = [
            int(sum(c.get("is_trained", [True] * n))) for c, n in zip(columns, lengths, strict=True)
        ]
        return cls(
            trained=Totals(sum(trained), sum(count > 0 for count in trained), max_tokens),
            response_tokens=sum(lengths),
            positive_tokens=int(sum(sum(c.get("is_positive", ())) for c in columns)),
        )


@dataclass(frozen=True)
class Minibatch:
    """One update: this rank's share of it, the sizes of the whole, the rate."""

    micro_batches: list[TrainBatch]
    sizes: UpdateSizes
    learning_rate: float


def minibatches(
    model: Any,
    sequences: Sequence[TokenSequence],
    columns: Sequence[str],
    optimization: AdamConfig,
    config: TrainConfig,
    iteration: int,
    stream: str = "minibatches",
    first_iteration: int = 1,
) -> Iterator[Minibatch]:
    """The epochs of an iteration, cut into updates. Nothing is dropped: the last may be smaller.

    The batches carry `columns` and lie on the `model`'s device, packed where it `packs`. With
    `optimization.shuffle` "groups" a problem's rollouts go into one update where it has room. The
    learning rate's schedule runs from `first_iteration` to the run's last.
    """
    whole = config.optimization.shuffle == "groups"
    groups = [sequence.prompt_ids if whole else i for i, sequence in enumerate(sequences)]
    plan = [
        chosen
        for epoch in range(optimization.num_epochs)
        for seed in [derive_seed(config.seed, iteration, stream, epoch)]
        for chosen in grouped_minibatches(groups, optimization.batch_size, seed)
    ]
    done = (iteration - first_iteration) * len(plan)
    total = (config.num_iterations - first_iteration + 1) * len(plan)
    for number, indices in enumerate(plan):
        rate = rate_of(optimization, done + number, total)
        chosen = [sequences[i] for i in indices]
        size = optimization.micro_batch_size
        batches = micro_batches(chosen, columns, size, model.device, model.packs)
        yield Minibatch(batches, UpdateSizes.of(chosen, config.sampling.max_tokens), rate)


def micro_batches(
    sequences: Sequence[TokenSequence],
    columns: Sequence[str],
    micro_batch_size: int,
    device: torch.device,
    packs: bool = False,
) -> list[TrainBatch]:
    """This rank's share of the sequences as batches."""
    shares = micro_batches_of(sequences, micro_batch_size, rank(), num_ranks(), device, packs)
    return [collate([sequences[i] for i in share], device, columns, packs) for share in shares]


def is_sound(max_mean_ratio: float | None, stats: Stats) -> bool:
    """True if an update may be applied, by the numbers of all its micro-batches."""
    if not math.isfinite(sum(s["loss"] for s in stats)):
        return False
    return max_mean_ratio is None or sum(s["ratio_mean"] for s in stats) <= max_mean_ratio


def summarize(
    updates: "Sequence[Update]", group: str, names: Sequence[str], rate: float, prefix: str = ""
) -> dict[str, float]:
    """Means over an iteration's updates of the sums over their micro-batches.

    `prefix` comes before the names in the micro-batches' numbers.
    """
    norms = [update.grad_norm for update in updates if update.grad_norm is not None]
    sums = {name: sum(s[prefix + name] for u in updates for s in u.stats) for name in names}
    return {
        **{f"{group}/{name}": total / len(updates) for name, total in sums.items()},
        f"{group}/grad_norm": sum(norms) / len(norms) if norms else float("nan"),
        f"{group}/lr": rate,
        f"{group}/skipped_updates": len(updates) - len(norms),
    }
