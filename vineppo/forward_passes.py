"""Passes without gradient over sequences of token ids, some of them while rollouts are sampled."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from vineppo.batching import collate, micro_batches_of, response_rows
from vineppo.distributed import LONE, RankGroup, all_ranks
from vineppo.token_scores import ForwardOptions, Reference, TokenScores
from vineppo.types import Rollout, TokenSequence, TrainBatch

Rows = list[tuple[float, ...]]  # one tuple a sequence, one number a response token
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
    """What `forward` says of every response token, without gradient; one `Rows` a tensor."""

    def read(
        batch: TrainBatch, chosen: Sequence[TokenSequence]
    ) -> list[tuple[tuple[float, ...], ...]]:
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
    """What `read` finds of every sequence, in a micro-batch with others, without gradient.

    The batches carry `columns`, and are packed where the model takes them so. Every one of
    `ranks` (None: of all) passes its share, and has all of them in the end.
    """
    ranks = ranks or all_ranks()
    mine: list[tuple[int, T]] = []
    for share in micro_batches_of(
        sequences, micro_batch_size, ranks.rank, ranks.size, device, packs
    ):
        chosen = [sequences[i] for i in share]
        batch = collate(chosen, device, columns, packs)
        with torch.no_grad():
            of_chosen = read(batch, chosen)
        mine += zip(share, of_chosen, strict=False)  # an empty share has a row
    by_index = {index: row for share in ranks.gather(mine) for index, row in share}
    return [by_index[index] for index in range(len(sequences))]


class _PassOfRollouts:
    """Finished rollouts gather here until they are enough to be cut by length into micro-batches.

    Which of them share a batch depends on the order of `add` alone.
    """

    def __init__(self, micro_batch_size: int, device: torch.device) -> None:
        self._micro_batch_size = micro_batch_size
        self._device = device
        self._pool: list[Rollout] = []

    def add(self, rollout: Rollout) -> None:
        self._pool.append(rollout)

    def is_due(self, is_last: bool) -> bool:
        """Whether there are rollouts enough to cut by length; `is_last`: no more will come."""
        return len(self._pool) >= (1 if is_last else POOL * self._micro_batch_size)

    def _take(self) -> list[Rollout]:
        pool, self._pool = self._pool, []
        return pool


class ReferencePass(_PassOfRollouts):
    """log π_ref of finished rollouts, for whoever reads it in the end.

    `work` computes what is due, on a GPU in a thread with a stream of its own beside the engine's,
    on a CPU at once, as there the engine needs every core.
    """

    def __init__(
        self,
        reference: Reference,
        temperature: float,
        micro_batch_size: int,
        device: torch.device,
    ) -> None:
        super().__init__(micro_batch_size, device)
        self._reference = reference
        self._temperature = temperature
        self._running: list[Future[None]] = []
        self._found: dict[RolloutKey, tuple[float, ...]] = {}
        is_cuda = device.type == "cuda"
        self._thread = ThreadPoolExecutor(1) if is_cuda else None
        self._stream = torch.cuda.Stream(device) if is_cuda else None

    def work(self) -> None:
        """Starts on everything that was added, on a CPU also finishes it."""
        pool = self._take()
        if not pool:
            return
        if self._thread is None:
            self._score(pool)
        else:
            self._running.append(self._thread.submit(self._score, pool))

    def wait(self) -> None:
        """Until all that was started is done."""
        while self._running:
            self._running.pop().result()

    def finish(self) -> dict[RolloutKey, tuple[float, ...]]:
        """Those of every rollout added since the last call; waits for them."""
        self.work()
        self.wait()
        done, self._found = self._found, {}
        return done

    def _score(self, pool: list[Rollout]) -> None:
        def forward(batch: TrainBatch) -> tuple[torch.Tensor]:
            return (self._reference.logprobs(batch, self._temperature),)

        with torch.cuda.stream(self._stream):  # None: where all else runs
            (rows,) = token_columns(
                forward, pool, self._micro_batch_size, self._device, LONE,
                self._reference.packs,
            )  # fmt: skip
        self._found |= {rollout.key: row for rollout, row in zip(pool, rows, strict=True)}


class EntropyPass(_PassOfRollouts):
    """H(π(· | s_t)) of finished rollouts in nats, for segmenters and cuts that look at it.

    It is exact over the vocabulary and of the tempered policy, of which `scores` is the pass.
    `ranks` are those of a replica: they add the same rollouts, divide the passes, and have the very
    same numbers, so that they cut alike.
    """

    def __init__(
        self,
        scores: Callable[[TrainBatch, ForwardOptions], TokenScores],
        temperature: float,
        micro_batch_size: int,
        device: torch.device,
        ranks: RankGroup = LONE,
    ) -> None:
        super().__init__(micro_batch_size, device)
        self._scores = scores
        self._options = ForwardOptions(temperature, has_entropy=True)
        self._ranks = ranks

    def work(self) -> list[Rollout]:
        """Sets "entropies" of all that were added, at least one, and gives them in their order."""
        pool = self._take()
        (entropies,) = token_columns(
            lambda batch: (self._scores(batch, self._options).entropy_BT,),
            pool, self._micro_batch_size, self._device, self._ranks,
        )  # fmt: skip
        for rollout, entropies_T in zip(pool, entropies, strict=True):
            rollout.tokens_T["entropies"] = entropies_T
        return pool
