"""Where the seconds of an iteration go: torch's profile, summed by phase and kind of operation.

Both environments import this module.
"""

import re
import time
from collections.abc import Iterable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

PHASE = "phase: "
# The first that an operation's name matches.
KINDS = {
    "optimizer": r"adam|_foreach_|clip_grad|Optimizer\.",
    "attention": r"attention|attn|flash|kv_cache",
    "products": r"mm_?$|mv$|matmul|::linear$|packed_linear|einsum|gemm|onednn|mkldnn",
    "communication": r"c10d|gloo|nccl|all_?gather|all_?reduce|reduce_scatter",
    "softmax and loss": r"softmax|logsumexp|gather|scatter|nll|::exp_?$",
    "drawing": r"exponential|sort|topk|argmax|multinomial|cumsum",
    "norms, gates, rotary": r"norm|rsqrt|pow|mean|silu|sigmoid|rotary|::neg_?$",
    "copies and indices": r"copy|cat$|stack$|index|::to$|clone|contiguous|embedding|fill|zero",
    "other operations": r"",
}
OUTSIDE, ALL = "outside operations", "all"


class Operations:
    """`start()`, `enter(phase)` at the start of every phase, `stop()`; `enter` is free when off.

    Under the profiler everything takes longer, the smallest operations most. Only the thread that
    starts it is seen, with what its operations do on others.
    """

    def __init__(self) -> None:
        self._profile: profile | None = None

    def start(self) -> None:
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(activities=activities, acc_events=True)
        self._profile.start()

    def enter(self, phase: str) -> None:
        if self._profile is not None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            with record_function(PHASE + phase):
                time.sleep(1e-6)  # a range of no length might sort before its neighbours

    def stop(self) -> dict[str, dict[str, float]]:
        """Seconds by phase and kind: of the clock on a CPU, of the device's own on a GPU.

        "outside operations" is the rest of a phase's time: Python, waiting, and libraries that
        torch does not see.
        """
        assert self._profile is not None
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.enter(ALL)
        self._profile.stop()
        recorded = self._profile.events()
        assert recorded is not None
        self._profile = None
        scale = 1e-6
        own = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        # The host's events have the time of the kernels that they started; a kernel's own event
        # would count it again, and not in the phase of the host's clock.
        events = [
            (e.name, e.time_range.start * scale, getattr(e, own) * scale)
            for e in recorded
            if not e.is_async and e.device_type == DeviceType.CPU
        ]
        return by_phase(events)


def by_phase(events: Iterable[tuple[str, float, float]]) -> dict[str, dict[str, float]]:
    """Seconds by phase and kind, from the name, the start and the own seconds of every event.

    A phase lasts from its mark to the next one; "all" ends the last. Several of a phase add up.
    """
    ordered = sorted(events, key=lambda event: event[1])
    seconds: dict[str, dict[str, float]] = {}
    now: str | None = None
    since = 0.0
    for name, start, own in ordered:
        if name.startswith(PHASE):
            if now is not None:
                seconds[now][ALL] += start - since
            now, since = name.removeprefix(PHASE), start
            if now != ALL:
                seconds.setdefault(now, {**dict.fromkeys(KINDS, 0.0), OUTSIDE: 0.0, ALL: 0.0})
        elif now is not None and now != ALL:
            seconds[now][kind_of(name)] += own
    for phase in seconds.values():
        phase[OUTSIDE] = phase[ALL] - sum(phase[kind] for kind in KINDS)
    return seconds


def kind_of(name: str) -> str:
    """`kind_of("aten::addmm")` is "products"."""
    return next(kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE))
