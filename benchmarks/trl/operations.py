"""Where the seconds of an iteration go: torch's profile, summed by kinds of operations.

Both environments import this module. Operations of the optimizer's own loop over parameters are
named by what they do, not by who called them, but for its fused one.
"""

import re
import time
from collections.abc import Iterable

import torch
from torch.profiler import ProfilerActivity, profile

# The first that an operation's name matches.
KINDS = {
    "optimizer": r"adam|_foreach_|clip_grad",
    "attention": r"attention|flash",
    "products": r"mm$|matmul|linear|einsum|onednn|mkldnn",
    "softmax and loss": r"softmax|logsumexp|gather|scatter|nll|exp$|exponential",
    "copies and indices": r"copy|cat$|stack$|index|to$|clone|contiguous|embedding|fill|zero",
    "other operations": r"",
}


class Operations:
    """`start()` … `stop()`; under the profiler everything takes longer, the smallest most."""

    def __init__(self) -> None:
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(activities=activities, acc_events=True)
        self._started = 0.0

    def start(self) -> None:
        self._profile.start()
        self._started = time.perf_counter()

    def stop(self) -> dict[str, float]:
        """Seconds of the CPU's threads by kind of operation, and what is left of the clock's.

        "outside operations" is Python, waiting, and the libraries that torch does not see.
        """
        total_s = time.perf_counter() - self._started
        self._profile.stop()
        events = ((e.key, e.self_cpu_time_total * 1e-6) for e in self._profile.key_averages())
        seconds = by_kind(events)
        return {**seconds, "outside operations": total_s - sum(seconds.values()), "all": total_s}


def by_kind(events: Iterable[tuple[str, float]]) -> dict[str, float]:
    """`by_kind([("aten::addmm", 2.0), ("aten::add", 1.0)])`: 2 s of products, 1 of other ones."""
    seconds = dict.fromkeys(KINDS, 0.0)
    for name, spent in events:
        kind = next(k for k, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE))
        seconds[kind] += spent
    return seconds
