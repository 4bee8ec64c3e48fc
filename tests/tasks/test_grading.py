import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import comparators
from support.task_configs import GRADING

from vineppo.tasks.grading import Grader
from vineppo.tasks.worker_pool import PoolClosedError
from vineppo.types import Problem

SHORT = replace(GRADING, time_limit_s=1.0)


def _problem(answer: str, name: str = "p") -> Problem:
    return Problem(name, "?", answer)


def _rewards(grader: Grader, answer: str, extracted_G: list[str]) -> list[float]:
    futures = [grader.submit(_problem(answer), f"#### {text}", "stop") for text in extracted_G]
    return [future.result(timeout=60) for future in futures]


def test_algebra_is_compared_in_a_worker_and_only_once() -> None:
    with Grader(GRADING) as grader:
        answers = ["1+x", "x + 2/2", "x-1", "x + 2/2", "0.5x"]
        assert _rewards(grader, "x+1", answers) == [1.0, 1.0, 0.0, 1.0, 0.0]
        assert grader.metrics() == {
            "grading/num_graded": 5.0,
            "grading/no_answer_frac": 0.0,
            "grading/memo_hit_frac": 1 / 5,
            "grading/num_timeouts": 0.0,
            "grading/num_worker_deaths": 0.0,
            "grading/num_errors": 0.0,
        }
        assert _rewards(grader, "x+1", answers) == [1.0, 1.0, 0.0, 1.0, 0.0]
        assert grader.metrics()["grading/memo_hit_frac"] == 1.0


EXPAND = Problem("p", "Expand $(x+1)^2$.", "x^2+2x+1")


@pytest.mark.parametrize(
    ("changes", "problem", "finish", "texts", "expected"),
    [
        ({}, _problem("18"), "stop", ["####18", "####18.0", "####17", "####$18."], [1, 1, 0, 1]),
        ({}, _problem("raise"), "stop", ["#### raise", "18", ""], [1, 0, 0]),
        ({}, EXPAND, "stop", ["#### (x+1)^2", "#### x^2+2x+1"], [0, 1]),  # one is the question's
        ({"num_matching": 2}, _problem("407"), "stop",
         [f"#### {text}" for text in ("407", "417", "411", "41", "4077", "704")],
         [1, 1, 0, 0, 0, 0]),
        ({}, _problem("18"), "length", ["#### 18", "#### 1"], [1, 0]),
        ({"truncated_reward": 0.0}, _problem("18"), "length", ["#### 18", "#### 1"], [0, 0]),
        ({"truncated_reward": -0.5}, _problem("18"), "length", ["#### 18", "1"], [-0.5, -0.5]),
        ({"truncated_reward": -0.5}, _problem("18"), "stop", ["#### 18"], [1]),
    ],
)  # fmt: skip
def test_what_needs_no_worker(changes, problem, finish, texts, expected) -> None:
    with Grader(replace(GRADING, **changes), comparators.fail) as grader:
        assert [grader.submit(problem, text, finish).result() for text in texts] == expected
        assert not any(pool._workers for pool in grader._pools)
        is_read = finish == "stop" or changes.get("truncated_reward") is None
        num_none = sum("####" not in text for text in texts) * is_read
        for frac in (num_none / len(texts), 0.0):  # the counters start anew
            assert grader.metrics()["grading/no_answer_frac"] == pytest.approx(frac)


@pytest.mark.parametrize(
    ("compare", "bad", "counter"),
    [
        (comparators.hang_in_c, "hang", "grading/num_timeouts"),
        (comparators.die, "die", "grading/num_worker_deaths"),
        (comparators.fail, "raise", "grading/num_errors"),
        (comparators.fail, "exit", "grading/num_errors"),
    ],
)
def test_a_failed_comparison_is_wrong_counted_and_alone(
    compare: Callable[[str, str], bool], bad: str, counter: str
) -> None:
    with Grader(SHORT, compare) as grader:
        answers = ["a", bad, "b", bad, "A"]
        assert _rewards(grader, "A", answers) == [1.0, 0.0, 0.0, 0.0, 1.0]
        metrics = grader.metrics()
        failures = {name: n for name, n in metrics.items() if name.startswith("grading/num_")}
        del failures["grading/num_graded"]
        assert {name for name, n in failures.items() if n} == {counter}
        assert failures[counter] == 1.0


def test_the_limit_is_hard_and_leaves_the_start_of_a_worker_out() -> None:
    # Imports and parser tables take far longer than this limit; so short, there is one pool.
    config = replace(GRADING, time_limit_s=0.03)
    with Grader(config, comparators.hang_beside_math_verify) as grader:
        assert _rewards(grader, "A", ["a"]) == [1.0]
        start_s = time.monotonic()
        assert _rewards(grader, "A", ["hang"]) == [0.0]
        assert time.monotonic() - start_s < 60.0  # it would hang for good
        assert _rewards(grader, "B", ["b"]) == [1.0]
        assert grader.metrics()["grading/num_timeouts"] == 1.0


def test_a_time_out_is_no_verdict_to_remember(tmp_path: Path) -> None:
    marker = str(tmp_path / "marker")
    with Grader(SHORT, comparators.hang_until_marked) as grader:
        assert _rewards(grader, marker, ["a"]) == [0.0]
        assert grader.metrics()["grading/num_timeouts"] == 1.0
        Path(marker).touch()
        assert _rewards(grader, marker, ["a"]) == [1.0]


def test_processor_time_and_memory_are_limited() -> None:
    with Grader(replace(GRADING, time_limit_s=0.1), comparators.slow) as grader:
        assert _rewards(grader, "A", ["a"]) == [1.0]  # sleeps for twice the limit
    with Grader(GRADING, comparators.allocate) as grader:
        assert _rewards(grader, "A", ["much", "a"]) == [0.0, 1.0]
        assert grader.metrics()["grading/num_errors"] == 1.0


def test_what_hangs_does_not_keep_others_waiting() -> None:
    config = replace(GRADING, num_workers=2, time_limit_s=10.0)
    with Grader(config, comparators.hang_in_c) as grader:
        hung = [
            grader.submit(_problem(answer), "#### hang", "stop") for answer in ("A", "B", "C", "D")
        ]
        assert _rewards(grader, "A", ["a"]) == [1.0]
        assert not any(future.done() for future in hung)


def test_a_worker_killed_while_idle_is_replaced(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with Grader(GRADING, comparators.pid) as grader:
        _rewards(grader, str(pids), ["a"])
        os.kill(int(pids.read_text()), signal.SIGKILL)
        time.sleep(0.1)
        _rewards(grader, str(pids), ["b"])
        assert len(set(pids.read_text().split())) == 2
        assert grader.metrics()["grading/num_worker_deaths"] == 0.0


def test_rewards_do_not_depend_on_order_or_workers() -> None:
    answers = ["a", "hang", "b", "A", "none", "a"]
    for num_workers, order in ((1, answers), (2, answers[::-1])):
        config = replace(GRADING, num_workers=num_workers, time_limit_s=0.1)
        with Grader(config, comparators.hang_in_c) as grader:
            expected = [float(answer.upper() == "A") for answer in order]
            assert _rewards(grader, "A", order) == expected


def test_close_ends_the_workers_and_what_waits_for_them(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    grader = Grader(replace(GRADING, time_limit_s=60.0), comparators.pid)
    running, waiting = (
        grader.submit(_problem(str(pids)), f"#### {text}", "stop") for text in ("hang", "b")
    )
    _wait_for(pids.exists)
    grader.close()
    for future in (running, waiting):
        with pytest.raises(PoolClosedError):
            future.result(timeout=0)
    _wait_for(lambda: not _is_running(int(pids.read_text().split()[0])))
    with pytest.raises(RuntimeError, match="closed"):
        grader.submit(_problem("18"), "#### 18", "stop")


def test_workers_that_cannot_start_are_an_error_not_a_reward() -> None:
    def local(answer: str, extracted: str) -> bool:
        return answer == extracted

    with (
        Grader(GRADING, local) as grader,
        pytest.raises(RuntimeError, match="grading worker did not start"),
    ):
        grader.submit(_problem("A"), "#### a", "stop").result(timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_a_hanging_worker_does_not_outlive_its_killed_parent(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        "import time; from support import comparators; from support.task_configs import GRADING\n"
        "from dataclasses import replace\n"
        "from vineppo.tasks.grading import Grader; from vineppo.types import Problem\n"
        "grader = Grader(replace(GRADING, time_limit_s=600.0, num_workers=2), comparators.pid)\n"
        f"for text in ('hang', 'idle'): grader.submit(Problem('', '', {str(pids)!r}), "
        "f'#### {text}', 'stop')\n"
        "time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment)
    try:
        # A worker of a short limit is killed before, and its job goes to one of a longer.
        def running() -> list[int]:
            written = pids.read_text().split() if pids.exists() else []
            return [pid for pid in map(int, written) if _is_running(pid)]

        _wait_for(lambda: len(running()) == 2)
        time.sleep(1)
        _wait_for(lambda: len(running()) == 2)
        workers = running()
    finally:
        parent.kill()
        parent.wait()
    _wait_for(lambda: not any(_is_running(worker) for worker in workers))


def test_workers_import_nothing_heavy() -> None:
    script = (
        "import sys; from vineppo.tasks.worker_pool import warm_up; warm_up()\n"
        "print(sorted({'torch', 'transformers', 'vllm', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def _wait_for(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.02)


def _is_running(pid: int) -> bool:
    """True if the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
