"""Cores that other work keeps busy are seen, and left to it."""

import os
import subprocess
import sys
import time

import pytest
from vineppo.cores import busy_shares, leave_busy_cores, quiet_cores, watch_cores

from vineppo import cores

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


@pytest.fixture
def taken(monkeypatch):
    """The cores that `leave_busy_cores` takes, of two of which the first is busy."""
    sets = []
    monkeypatch.setattr(cores, "watch_cores", lambda: {0: 0.98, 1: 0.04})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, taken: sets.append(taken))
    for name in ("OMP_NUM_THREADS", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return sets


def test_a_run_takes_the_quiet_cores_and_says_so(taken):
    line = leave_busy_cores()
    assert taken == [[1]]
    assert line == (
        "other work keeps 1.0 of 2 cores busy: this run takes 1 (OMP_NUM_THREADS=2 in the "
        "environment takes all)"
    )


@pytest.mark.parametrize(
    ("shares", "core", "beginning"),
    [
        ({0: 1.0, 1: 1.0}, 0, "other work keeps 2.0 of 2 cores busy: this run takes 1 "),
        ({3: 1.0}, 3, "other work keeps 1.0 of 1 cores busy: this run shares it"),
    ],
)
def test_where_no_core_is_idle_a_run_takes_one_and_says_so(
    taken, monkeypatch, shares, core, beginning
):
    monkeypatch.setattr(cores, "watch_cores", lambda: shares)
    assert (leave_busy_cores() or "").startswith(beginning)
    assert taken == [[core]]


@pytest.mark.parametrize(("name", "value"), [("OMP_NUM_THREADS", "2"), ("WORLD_SIZE", "2")])
def test_who_decides_himself_is_left_alone(taken, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert leave_busy_cores() is None
    assert taken == []


def test_quiet_cores_are_all_taken(taken, monkeypatch):
    monkeypatch.setattr(cores, "watch_cores", lambda: {0: 0.1, 1: 0.1})
    assert leave_busy_cores() is None
    assert taken == []


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_command_asks_before_torch_has_its_threads(command, configs, tmp_path):
    """Threads counted before would share the core that is left, and wait for each other."""
    code = (
        "import sys\nfrom vineppo import cli\n"
        "def ask():\n    sys.exit('torch is there' if 'torch' in sys.modules else 'not yet')\n"
        "cli.leave_busy_cores = ask\ncli.main()\n"
    )
    what = str(configs / "demo_ppo.jsonnet") if command == "train" else str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code, command, what], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().endswith("not yet"), done.stderr
