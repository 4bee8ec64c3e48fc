"""Doctor sees the cores that other work keeps busy."""

import os
import subprocess
import sys
import time

import pytest

from vineppo.tools.cores import busy_shares, quiet_cores, watch_cores

BEFORE = """cpu  30 0 10 160 0 0 0 0 0 0
cpu0 10 0 5 80 5 0 0 0 0 0
cpu1 20 0 5 75 0 0 0 0 4 0
intr 5
"""
# Of core 0, 20 ticks: 4 of a user, 1 of the system, 12 idle and 3 waiting for a disk. Of core 1,
# 10: 6 of the user, 2 stolen, 2 idle; a guest's are the user's.
AFTER = """cpu  30 0 10 160 0 0 0 0 0 0
cpu0 14 0 6 92 8 0 0 0 0 0
cpu1 26 0 5 77 0 0 0 2 9 0
"""


def test_shares_are_what_was_not_idle():
    assert busy_shares(BEFORE, AFTER) == {0: pytest.approx(5 / 20), 1: pytest.approx(8 / 10)}
    assert busy_shares(BEFORE, BEFORE) == {}


@pytest.mark.parametrize(
    ("shares", "quiet"),
    [
        ({0: 0.9, 1: 0.1}, [1]),
        ({0: 0.2, 1: 0.2}, [0, 1]),
        ({0: 0.5, 1: 0.5}, [0]),
        ({0: 1.0, 1: 1.0}, [0]),
        ({3: 1.0}, [3]),
        ({2: 0.0, 3: 1.0, 4: 0.1, 5: 0.9}, [2, 4]),
        ({}, []),
    ],
)
def test_as_many_cores_as_others_leave(shares, quiet):
    assert quiet_cores(shares) == quiet


def test_a_busy_core_is_seen():
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.3)
        shares = watch_cores(0.3)
    finally:
        other.kill()
        other.wait()
    if not shares:
        pytest.skip("the system does not say how busy its cores are")
    assert shares[core] > 0.6
