"""Passes without gradient over sequences of token ids, one of them beside the sampling."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

from vineppo.batching import collate, length_bucketed, ranks_share, response_rows
from vineppo.distributed import gather_lists, num_ranks, rank
from vineppo.token_scores import Reference
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
) -> list[Rows]:
    """What `forward` says of every response token, without gradient; one `Rows` a tensor."""

    def read(batch: TrainBatch, _: Sequence[TokenSequence]) -> list[tuple[tuple[float, ...], ...]]:
        return response_rows(forward(batch), batch)

    rows_B = read_sequences(read, sequences, micro_batch_size, device)
    return [list(column) for column in zip(*rows_B, strict=True)]


def read_sequences(
    read: Callable[[TrainBatch, Sequence[S]], Sequence[T]],
    sequences: Sequence[S],
    micro_batch_size: int,
    device: torch.device,
) -> list[T]:
    """What `read` finds of every sequence, in a micro-batch with others, without gradient.

    Every rank passes its share, and has all of them in the end.
    """
    mine: list[tuple[int, T]] = []
    for share in ranks_share([len(s) for s in sequences], micro_batch_size, rank(), num_ranks()):
        chosen = [sequences[i] for i in share]
        batch = collate(chosen, device)
        with torch.no_grad():
            found = read(batch, chosen)
        mine += zip(share, found, strict=False)  # an empty share has a row
    return [found for _, found in sorted(gather_lists(mine), key=lambda item: item[0])]


class ReferencePass:
    """log π_ref of finished rollouts, in micro-batches of similar length.

    A rollout is one `add`; `work` computes what is due, on a GPU in a thread with a stream of its
    own beside the engine's, on a CPU at once, as there the engine needs every core. Which rollouts
    share a batch depends on the order of `add` alone.
    """

    def __init__(
        self,
        reference: Reference,
        temperature: float,
        micro_batch_size: int,
        device: torch.device,
    ) -> None:
        self._reference = reference
        self._temperature = temperature
        self._micro_batch_size = micro_batch_size
        self._device = device
        self._pool: list[Rollout] = []
        self._futures: list[Future[dict[RolloutKey, tuple[float, ...]]]] = []
        is_cuda = device.type == "cuda"
        self._thread = ThreadPoolExecutor(1) if is_cuda else None
        self._stream = torch.cuda.Stream(device) if is_cuda else None

    def add(self, rollout: Rollout) -> None:
        self._pool.append(rollout)

    def is_due(self, is_last: bool) -> bool:
        """Whether there are rollouts enough to cut by length; `is_last`: no more will come."""
        return len(self._pool) >= (1 if is_last else POOL * self._micro_batch_size)

    def work(self) -> None:
        """Starts on everything that was added, on a CPU also finishes it."""
        pool, self._pool = self._pool, []
        if not pool:
            return
        if self._thread is not None:
            self._futures.append(self._thread.submit(self._logprobs, pool))
            return
        done: Future[dict[RolloutKey, tuple[float, ...]]] = Future()
        done.set_result(self._logprobs(pool))
        self._futures.append(done)

    def finish(self) -> dict[RolloutKey, tuple[float, ...]]:
        """Those of every rollout added since the last call; waits for them."""
        self.work()
        futures, self._futures = self._futures, []
        return {key: row for future in futures for key, row in future.result().items()}

    def _logprobs(self, pool: list[Rollout]) -> dict[RolloutKey, tuple[float, ...]]:
        logprobs: dict[RolloutKey, tuple[float, ...]] = {}
        lengths = [len(rollout) for rollout in pool]
        with torch.cuda.stream(self._stream):  # None: where all else runs
            for chosen in length_bucketed(lengths, self._micro_batch_size):
                batch = collate([pool[i] for i in chosen], self._device)
                logprobs_BT = self._reference.logprobs(batch, self._temperature)
                rows = response_rows([logprobs_BT], batch)
                logprobs |= {pool[i].key: row for i, (row,) in zip(chosen, rows, strict=True)}
        return logprobs
