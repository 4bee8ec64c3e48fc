"""The ranks of a run: who this process is, and what all of them bring together.

Sampling, scoring and the micro-batches of an update are divided over the ranks; all that lies
between is computed by every rank from the same gathered data. The main rank alone writes.
"""

import os
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import distributed

T = TypeVar("T")


def init_distributed() -> None:
    """torch.distributed for DeepSpeed: the launcher's ranks, or a lone one without a launcher."""
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed warns that it guessed so
    if distributed.is_initialized():
        return
    if "RANK" not in os.environ:
        os.environ["LOCAL_RANK"] = "0"  # DeepSpeed asks for it
        store = distributed.HashStore()
        distributed.init_process_group(_backend(), store=store, rank=0, world_size=1)
        return
    distributed.init_process_group(_backend())


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def num_ranks() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this process writes the run directory and speaks."""
    return rank() == 0


def barrier() -> None:
    if num_ranks() > 1:
        distributed.barrier()


def gather(mine: T) -> list[T]:
    """What every rank brings, in their order, on every rank."""
    if num_ranks() == 1:
        return [mine]
    everyone: list[Any] = [None] * num_ranks()
    distributed.all_gather_object(everyone, mine)
    return everyone


def gather_lists(mine: Sequence[T]) -> list[T]:
    return [item for items in gather(list(mine)) for item in items]


def _backend() -> str:
    return "nccl" if torch.cuda.is_available() else "gloo"
