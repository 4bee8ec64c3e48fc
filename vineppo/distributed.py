"""The ranks of a run: who this process is, and what all of them bring together.

Sampling, scoring and the micro-batches of an update are divided over the ranks; all that lies
between is computed by every rank from the same gathered data. The main rank alone writes.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import distributed

from vineppo.errors import SharedError, UserError
from vineppo.parent_death import die_with_parent

T = TypeVar("T")


def init_distributed() -> None:
    """torch.distributed for DeepSpeed: the launcher's ranks, or a lone one without a launcher.

    Must come before an engine is built: vLLM would make a group of one rank, and every rank would
    train alone without a word. On a CPU the ranks of a machine divide its cores. On a GPU tensors
    go by NCCL and objects by gloo: torch takes the CPU for objects where a group has one.

    The group is bound to no device (`device_id`). Otherwise new gloo groups, which vLLM makes,
    hang: ranks outside of such a group split the NCCL communicator alone (pytorch 134314, 145376).

    From here on no attention of this process is cuDNN's, which plans every new shape anew, while
    passes have ever new lengths (experiments/09_gpu).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    on_gpu, is_launched = torch.cuda.is_available(), "RANK" in os.environ
    if not on_gpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed warns that it guessed so
    if distributed.is_initialized():
        size = distributed.get_world_size()
        assert size == num_ranks(), f"a group of {size} ranks, expected {num_ranks()}"
        return
    if not is_launched:
        os.environ["LOCAL_RANK"] = "0"  # DeepSpeed asks for it
    backend = "gloo"
    if on_gpu:
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(local_rank())  # else what names no GPU means the first on every rank
    if not is_launched:
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
        return
    if not on_gpu:
        bind_cores(local_rank(), num_local_ranks())
    if "TORCHELASTIC_RUN_ID" in os.environ or "CROSS_RANK" in os.environ:
        die_with_parent()  # torchrun's or deepspeed's agent, which ends the others when one fails
    # The slowest rank's sampling may take longer than the default, 30 min. Ranks wait as long for
    # one that hangs or is lost.
    distributed.init_process_group(backend, timeout=timedelta(hours=1))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def num_ranks() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_rank() -> int:
    """Which of its machine's ranks this is, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def num_local_ranks() -> int:
    """Ranks on this machine, as torchrun or else as deepspeed's launcher says it."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("LOCAL_SIZE", "1")))


def replica(ranks_a_replica: int) -> int:
    """Which replica of the engine this rank has a part in, from 0: neighbours share one."""
    return rank() // ranks_a_replica


def num_replicas(ranks_a_replica: int) -> int:
    return num_ranks() // ranks_a_replica


def is_main() -> bool:
    """True for the process that writes the run directory and prints."""
    return rank() == 0


def barrier() -> None:
    if num_ranks() > 1:
        distributed.barrier()


@dataclass(frozen=True)
class RankGroup:
    """Ranks that divide work: which of them this one is, how many, and who (None: all)."""

    rank: int
    size: int
    process_group: Any = None

    def gather(self, mine: T) -> list[T]:
        """What each of them brings, in their order, on each of them."""
        if self.size == 1:
            return [mine]
        everyone: list[Any] = [None] * self.size
        distributed.all_gather_object(everyone, mine, self.process_group)
        return everyone


LONE = RankGroup(0, 1)


def all_ranks() -> RankGroup:
    return RankGroup(rank(), num_ranks())


def ranks_of_replica(ranks_a_replica: int) -> RankGroup:
    """Those that share this rank's replica of the engine. All ranks of the run must ask at once."""
    if ranks_a_replica == 1:
        return LONE
    firsts = range(0, num_ranks(), ranks_a_replica)
    members = [[*range(first, first + ranks_a_replica)] for first in firsts]
    groups = [distributed.new_group(ranks, backend="gloo") for ranks in members]
    return RankGroup(rank() % ranks_a_replica, ranks_a_replica, groups[replica(ranks_a_replica)])


def gather(mine: T) -> list[T]:
    """What every rank brings, in their order, on every rank."""
    return all_ranks().gather(mine)


def from_main(find: Callable[[], T]) -> T:
    """What the main rank finds, on every rank; a `UserError` as well, as one that all share.

    For what is read of the disk: the file systems of several machines may show it at other times.
    """
    if num_ranks() == 1:
        return find()
    init_distributed()
    mine: Any = None
    if is_main():
        try:
            mine = find()
        except UserError as error:
            mine = error
    outcome = gather(mine)[0]
    if isinstance(outcome, UserError):
        raise SharedError(*outcome.args)
    return cast(T, outcome)


def deal(loads_R: Sequence[int], costs: Sequence[int]) -> list[int]:
    """Who gets each item: the costliest first, each to the one that then has least.

    `deal([10, 0], [3, 8, 4])` is [0, 1, 1]: 8 goes to the idle one, which with 8 against 10 takes
    4 as well, and 3 to the other.
    """
    loads = list(loads_R)
    owners = [0] * len(costs)
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        owners[item] = min(range(len(loads)), key=loads.__getitem__)
        loads[owners[item]] += costs[item]
    return owners


def largest(mine: int, device: torch.device) -> int:
    """The largest of the ranks' numbers."""
    if num_ranks() == 1:
        return mine
    number = torch.tensor(mine, device=device)
    distributed.all_reduce(number, distributed.ReduceOp.MAX)
    return int(number)


def bind_cores(local_rank: int, num_local: int) -> None:
    """Gives each rank its own cores: threads of several ranks on one core wait for each other."""
    cores = sorted(os.sched_getaffinity(0))
    if num_local == 1 or len(cores) < num_local:
        return
    bounds = [index * len(cores) // num_local for index in (local_rank, local_rank + 1)]
    mine = cores[slice(*bounds)]
    for thread in os.listdir("/proc/self/task"):  # those that torch has started already, too
        os.sched_setaffinity(int(thread), mine)
    torch.set_num_threads(len(mine))
