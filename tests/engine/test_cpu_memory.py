"""What the engine does against growing memory, measured in a process of its own."""

import subprocess
import sys
import textwrap

SCRIPT = """
    import ctypes, os, sys

    import vineppo.engine.vllm_engine as cpu_memory

    def resident_mib():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    if not hasattr(ctypes.CDLL(None), "malloc_trim"):
        print("no glibc")
        sys.exit()
    # Pieces too small to be mapped one by one; the last one holds the heap's end in place.
    pieces = [bytearray(b"x") * 60_000 for _ in range(2_000)]
    del pieces[:-1]
    before = resident_mib()
    cpu_memory.return_freed_memory()
    print(before - resident_mib())
"""


def test_freed_pieces_inside_the_heap_are_given_back():
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert out == "no glibc" or float(out) > 80  # of 114 MiB that were freed
