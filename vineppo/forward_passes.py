"""Passes without gradient over sequences of token ids, some of them while rollouts are sampled."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from vineppo.batching import collate, micro_batches_of, response_rows
from vineppo.distributed import LONE, RankGroup, all_ranks
from vineppo.token_scores import ForwardOptions, TokenScores
from vineppo.types import Rollout, TokenSequence, TrainBatch

Row = tuple[float, ...]  # one number a response token
Rows = list[Row]  # one a sequence
RolloutKey = tuple[str, int]  # problem id, rollout index
S = TypeVar("S", bound=TokenSequence)
T = TypeVar("T")

# Micro-batches' worth of finished rollouts that are cut by length together, against padding.
POOL = 4


def token_columns(
    forward: Callable[[TrainBatch], Sequence[torch.Tensor]],
    sequences: Sequence[TokenSequence],
    micro_batch_size: int,
    device: torch.device,
    ranks: RankGroup | None = None,
    packs: bool = False,
) -> list[Rows]:
    """Values of `forward` at every response token, without gradient; one `Rows` per tensor."""

    def read(batch: TrainBatch, chosen: Sequence[TokenSequence]) -> list[tuple[Row, ...]]:
        return response_rows(forward(batch), batch, chosen)

    rows_B = read_sequences(read, sequences, micro_batch_size, device, ranks, packs=packs)
    return [list(column) for column in zip(*rows_B, strict=True)]


def read_sequences(
    read: Callable[[TrainBatch, Sequence[S]], Sequence[T]],
    sequences: Sequence[S],
    micro_batch_size: int,
    device: torch.device,
    ranks: RankGroup | None = None,
    columns: Sequence[str] = (),
    packs: bool = False,
) -> list[T]:
    """The result of `read` for every sequence, batched with others, without gradient.

    The batches carry `columns`, and are packed if the model takes them so. Each of `ranks` (None:
    of all) passes its share, and has all of them in the end.
    """
    ranks = ranks or all_ranks()
    mine: list[tuple[int, T]] = []
    sizes = micro_batch_size, ranks.rank, ranks.size
    for share in micro_batches_of(sequences, *sizes, device, packs):
        chosen = [sequences[i] for i in share]
        batch = collate(chosen, device, columns, packs)
        with torch.no_grad():
            of_chosen = read(batch, chosen)
        mine += zip(share, of_chosen, strict=False)  # an empty share has a row
    by_index = {index: row for share in ranks.gather(mine) for index, row in share}
    return [by_index[index] for index in range(len(sequences))]


def entropies(
    scores: Callable[[TrainBatch, ForwardOptions], TokenScores], temperature: float
) -> Callable[[TrainBatch], torch.Tensor]:
    """H(π(· | s_t)) in nats, exact over the vocabulary, by a pass of the tempered policy."""
    options = ForwardOptions(temperature, has_entropy=True)
    return lambda batch: scores(batch, options).entropy_BT


@dataclass
class RolloutPass:
    """A column of finished rollouts, found while others are sampled: log π_ref, or entropies.

    Rollouts gather here until they are enough to be cut by length into micro-batches. Which of them
    share a batch depends on the order of `add` alone. The `ranks` of a replica add the same
    rollouts, divide the passes, and get the same numbers, so that they cut alike. A pass `beside`
    the engine gets its own thread and stream on a GPU. On a CPU it comes between the engine's
    steps, which need every core.
    """

    column: str
    forward: Callable[[TrainBatch], torch.Tensor]
    micro_batch_size: int
    device: torch.device
    ranks: RankGroup = LONE
    packs: bool = False
    beside: bool = False

    def __post_init__(self) -> None:
        self._pool: list[Rollout] = []
        self._running: list[tuple[list[Rollout], Future[Rows]]] = []
        has_stream = self.beside and self.device.type == "cuda"
        self._thread = ThreadPoolExecutor(1) if has_stream else None
        self._stream = torch.cuda.Stream(self.device) if has_stream else None

    def add(self, rollout: Rollout) -> None:
        self._pool.append(rollout)

    def is_due(self, is_last: bool) -> bool:
        """True if there are rollouts enough to cut by length; `is_last`: no more will come."""
        return len(self._pool) >= (1 if is_last else POOL * self.micro_batch_size)

    def work(self) -> list[Rollout]:
        """Starts on all that were added, and returns them in their order."""
        pool, self._pool = self._pool, []
        if self._thread is not None:
            self._running.append((pool, self._thread.submit(self._rows, pool)))
        else:
            self._set(pool, self._rows(pool))
        return pool

    def wait(self) -> None:
        """Until all that was started is done, and the rollouts have their column."""
        while self._running:
            pool, rows = self._running.pop()
            self._set(pool, rows.result())

    def _rows(self, pool: list[Rollout]) -> Rows:
        if not pool:
            return []
        with torch.cuda.stream(self._stream):  # None: where all else runs
            (rows,) = token_columns(
                lambda batch: (self.forward(batch),),
                pool, self.micro_batch_size, self.device, self.ranks, self.packs,
            )  # fmt: skip
        return rows

    def _set(self, pool: list[Rollout], rows: Rows) -> None:
        for rollout, row_T in zip(pool, rows, strict=True):
            rollout.tokens_T[self.column] = row_T
