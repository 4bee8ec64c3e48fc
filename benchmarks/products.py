"""How fast this machine multiplies matrices, the bound of every pass, and what a pass does else."""

import time
from collections.abc import Callable
from math import ceil

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

LARGE = 2048
NUM_TRIES = 3
LEAST_S = 0.1  # of a try: a product of a large GPU takes less than starting it
NUM_SHOWN = 12


def large_product_gflops(dtype: torch.dtype, device: torch.device) -> float:
    """The rate of one large square product, the best of three."""
    a, b = torch.randn(2, LARGE, LARGE, device=device).to(dtype)
    return 2e-9 * LARGE**3 / best_seconds(lambda: a @ b)


def batch_products_gflops(
    rows: int, width: int, num_parameters: int, dtype: torch.dtype, device: torch.device
) -> float:
    """The rate of what an engine step multiplies at least, the best of three.

    A batch of `rows` tokens meets every weight once: `num_parameters` of them, cut into matrices of
    `width` x `width`, which are read from memory where they exceed the caches.
    """
    num_matrices = max(1, num_parameters // width**2)
    matrices = torch.randn(num_matrices, width, width, device=device).to(dtype)
    batch = torch.randn(rows, width, device=device).to(dtype)

    def multiply() -> None:
        for matrix in matrices:
            batch @ matrix

    flops = 2 * rows * num_matrices * width**2
    return 1e-9 * flops / best_seconds(multiply)


def best_seconds(work: Callable[[], object]) -> float:
    """The least of three tries, each of as many calls without a pause as take a tenth of a second.

    Work that is started one small product at a time is bounded by the starts on a GPU, as an engine
    without CUDA graphs is.
    """
    count = max(1, ceil(LEAST_S / timed(work)))
    return min(timed(lambda: [work() for _ in range(count)]) / count for _ in range(NUM_TRIES))


def timed(work: Callable[[], object]) -> float:
    """Seconds until the device is done."""
    synchronize()
    started = time.perf_counter()
    work()
    synchronize()
    return time.perf_counter() - started


def profiled(work: Callable[[], object]) -> dict[str, object]:
    """Torch's profile of `work`: what it starts on a GPU, and the processor's time per operation.
    The profiler itself takes time."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities) as found:
        seconds = timed(work)
    events = found.key_averages()
    kernels = [event for event in events if event.device_type == DeviceType.CUDA]
    others = [event for event in events if event.device_type == DeviceType.CPU]
    others.sort(key=lambda event: event.self_cpu_time_total, reverse=True)
    return {
        "seconds": seconds,
        "kernels": sum(event.count for event in kernels),
        "seconds of kernels": 1e-6 * sum(event.self_device_time_total for event in kernels),
        "operations": {
            event.key: {"count": event.count, "seconds": 1e-6 * event.self_cpu_time_total}
            for event in others[:NUM_SHOWN]
        },
    }


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
