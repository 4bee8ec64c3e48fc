"""The ranks of a run: who this process is, what they bring together, and how they end together."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, cast

import torch
from torch import distributed

from vineppo.errors import InterruptionError, SharedError, UserError
from vineppo.parent_death import die_with_parent

POLL_S = 1.0
SPARE_CORES = 0.25  # that others may use before we count the machine as busy
POLLS_ALONE = 3  # before we count it as quiet again
T = TypeVar("T")
_asked: str | None = None  # the signal that asked this process to end; handlers need a global


def init_distributed() -> None:
    """Starts torch.distributed for DeepSpeed, with the launcher's ranks or a lone one.

    It comes before an engine: otherwise vLLM makes a group of one rank. The group has no
    `device_id`: with one, new gloo groups (vLLM makes some) hang (pytorch 134314, 145376).
    """
    torch.backends.cuda.enable_cudnn_sdp(False)  # it plans every new shape anew
    on_gpu, is_launched = torch.cuda.is_available(), "RANK" in os.environ
    if not on_gpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else DeepSpeed warns that it guessed so
    if distributed.is_initialized():
        assert distributed.get_world_size() == num_ranks()
        return
    backend = "gloo"
    if on_gpu:  # tensors go by NCCL, objects by gloo
        backend = "cpu:gloo,cuda:nccl"
        torch.cuda.set_device(local_rank())
    if not is_launched:
        os.environ["LOCAL_RANK"] = "0"  # DeepSpeed asks for it
        distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
        if not on_gpu:
            share_cores()
        return
    if not on_gpu:
        bind_cores(local_rank(), num_local_ranks())
    if "TORCHELASTIC_RUN_ID" in os.environ or "CROSS_RANK" in os.environ:
        die_with_parent()  # torchrun's or deepspeed's agent, which ends the others when one fails
    # The slowest rank's sampling may take longer than the default of 30 minutes.
    distributed.init_process_group(backend, timeout=timedelta(hours=1))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def num_ranks() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def local_rank() -> int:
    """The place of this rank among those of its machine, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def num_local_ranks() -> int:
    """Ranks on this machine, as torchrun or deepspeed's launcher says."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("LOCAL_SIZE", "1")))


def replica(ranks_a_replica: int) -> int:
    """The index of this rank's engine replica, from 0: neighbours share one."""
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
    """Ranks that divide work: this rank's place, their number, and the group (None: all)."""

    rank: int
    size: int
    process_group: Any = None

    def gather(self, mine: T) -> list[T]:
        """Everyone's `mine` in the order of ranks, on each rank."""
        if self.size == 1:
            return [mine]
        everyone: list[Any] = [None] * self.size
        distributed.all_gather_object(everyone, mine, self.process_group)
        return everyone


LONE = RankGroup(0, 1)


def all_ranks() -> RankGroup:
    return RankGroup(rank(), num_ranks())


def ranks_of_replica(ranks_a_replica: int) -> RankGroup:
    """The ranks that share this rank's replica of the engine. All ranks must call it at once."""
    if ranks_a_replica == 1:
        return LONE
    firsts = range(0, num_ranks(), ranks_a_replica)
    members = [[*range(first, first + ranks_a_replica)] for first in firsts]
    groups = [distributed.new_group(ranks, backend="gloo") for ranks in members]
    return RankGroup(rank() % ranks_a_replica, ranks_a_replica, groups[replica(ranks_a_replica)])


def gather(mine: T) -> list[T]:
    """Every rank's `mine` in their order, on every rank."""
    return all_ranks().gather(mine)


def from_main(find: Callable[[], T]) -> T:
    """The main rank's result, or its `UserError`, for all: machines' file systems may differ."""
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
    """The owner of each item: the costliest first, each to the one that then has least.

    `deal([10, 0], [3, 8, 4])` is [0, 1, 1].
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


def refuse_several_processes(command: str) -> None:
    """Raises `UserError` where a launcher started several."""
    if num_ranks() > 1:
        raise UserError(
            f"{command} runs in one process, got {num_ranks()}: start it without a launcher"
        )


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


def share_cores() -> None:
    """Lets other programs run, without fewer threads, so that no number depends on the load.

    OpenMP's threads spin for 3 ms while they wait for each other, and vLLM binds each to a core.
    Alone that is fastest. Beside other programs a thread spins for one that has no core. While they
    take cores that our threads need, ours sleep at once and move freely. The settings of a user, in
    the environment, stay.
    """
    its = "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "VLLM_CPU_OMP_THREADS_BIND"
    if torch.get_num_threads() > 1 and not any(name in os.environ for name in its):
        threading.Thread(target=_watch_cores, name="share_cores", daemon=True).start()


def _watch_cores() -> None:
    cores, num_threads = os.sched_getaffinity(0), torch.get_num_threads()
    bound: dict[int, set[int]] = {}  # the cores of the threads that are free to move meanwhile
    alone: threading.Event | None = None
    num_alone = 0
    then, others_then = time.monotonic(), _others_cpu_s(cores)
    while True:
        time.sleep(POLL_S)
        now, others_now = time.monotonic(), _others_cpu_s(cores)
        others = (others_now - others_then) / (now - then)
        then, others_then = now, others_now
        is_busy = others + num_threads > len(cores) + SPARE_CORES
        num_alone = 0 if is_busy else num_alone + 1
        if is_busy:
            if alone is None:
                alone = threading.Event()
                threading.Thread(target=_outnumber_cores, args=(alone,), daemon=True).start()
            for thread in map(int, os.listdir("/proc/self/task")):
                with suppress(ProcessLookupError):  # it has ended
                    if (its_cores := os.sched_getaffinity(thread)) != cores:
                        bound[thread] = its_cores
                        os.sched_setaffinity(thread, cores)
        elif alone is not None and num_alone == POLLS_ALONE:
            alone.set()
            alone = None
            for thread, its_cores in bound.items():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(thread, its_cores)
            bound.clear()


def _outnumber_cores(alone: threading.Event) -> None:
    """While libgomp has more threads than cores, none of them spins. This one's only wait."""
    torch.empty(1 << 20).fill_(0)  # large enough that this thread gets threads of its own
    alone.wait()


def _others_cpu_s(cores: set[int]) -> float:
    """The processor time that all but this process have had on `cores`."""
    total = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _, _, irq, softirq, steal = map(int, ticks[:8])
            total += user + nice + system + irq + softirq + steal
    return total / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


@contextmanager
def interruptible() -> Iterator[None]:
    """In the body the first signal is only noted, for `interruption`; a second Ctrl-C interrupts.

    A second SIGTERM does not: schedulers send it to every process, and launchers pass it on.
    """
    global _asked
    if threading.current_thread() is not threading.main_thread():  # it may not handle signals
        yield
        return
    before = {number: signal.signal(number, _note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        _asked = None
        for number, handler in before.items():
            signal.signal(number, handler)


def _note(number: int, _: FrameType | None) -> None:
    global _asked
    if _asked is not None and number == signal.SIGINT:
        raise KeyboardInterrupt
    _asked = _asked or signal.Signals(number).name


def interruption() -> str | None:
    """The name of the signal that has asked this process to end."""
    return _asked


def raise_if_any(asked_R: Iterable[str | None]) -> None:
    """Raises `InterruptionError` if a rank was asked to end, so that all ranks end together."""
    for asked in asked_R:
        if asked is not None:
            raise InterruptionError(asked)


def awaited(future: Future[T]) -> T:
    """The future's result; a signal ends a lone rank's wait, while several ranks end after it."""
    while num_ranks() == 1 and not future.done():
        try:
            return future.result(POLL_S)
        except TimeoutError:  # the future's own, too
            raise_if_any([interruption()])
    return future.result()
