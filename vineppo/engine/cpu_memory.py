"""Keeps the memory of sampling on a CPU from growing with the number of engine steps.

Every step has a batch of another shape. oneDNN keeps a compiled kernel of each shape that it has
met (1,024 by default), and the C allocator keeps what lies freed between pieces in use: 500 MiB
after 800 steps of the demo, 150 MiB with what is done here.
"""

import ctypes
import os

STEPS_BETWEEN_TRIMS = 16  # a trim takes 5 ms
NUM_KERNELS = 64  # a step needs few; to compile one that was dropped costs no measurable time


def limit_kernels() -> None:
    """Takes effect if oneDNN has not run in this process yet; a user's own setting stays."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(NUM_KERNELS))


def return_freed_memory() -> None:
    """Gives freed pages of the C heap back to the system. Does nothing without glibc."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
