"""Our verdicts beside those of the published grader and of math-verify alone, on real generations.

docs/data_and_grading.md judges every difference; the sets here are its rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import pytest
from support import comparators
from support.grids import grid
from support.shared_data import data_rows
from support.task_configs import GRADING

from vineppo.tasks.answers import extract_boxed
from vineppo.tasks.grading import Grader
from vineppo.tasks.worker_pool import WorkerPool
from vineppo.types import Problem

GSM8K, MATH = "rho-math-1b_gsm8k_test_cot", "rho-math-1b_math500_cot"
TIME_LIMIT_S = 60.0  # far above what any of these takes, so that a busy machine changes nothing
Extraction = Literal["boxed", "final_answer", "last_number"]
Row = dict[str, Any]

# Right numbers that the published extraction takes with the words or the sum around them; and wrong
# ones, a hundred times too large or too small, which the published grader forgives.
GSM8K_OURS_RIGHT, GSM8K_FORGIVEN = {16, 76, 908}, {328, 413, 951}
# 1 is not the pair 1,-2; 326.53 is not 326.5.
MATH_FORGIVEN = {25, 399}
# 1000(26) is still to be computed.
MATH_UNEVALUATED = {336}
# Right, but not in a box.
MATH_UNBOXED = {
    *(3, 8, 28, 31, 54, 56, 58, 65, 67, 76, 77, 79, 83, 90, 111, 121, 125, 148, 161, 169, 185, 191),
    *(210, 218, 221, 258, 270, 313, 322, 325, 330, 362, 367, 430, 449, 451, 455),
}
# Right, but not behind "final answer is".
MATH_UNANNOUNCED = {3, 17, 54, 65, 121, 210, 221, 227, 267, 312, 430, 449, 451}
# Right, where the published extraction takes more than the answer: "72Ihopeitiscorrect",
# "4inchespersecond".
MATH_OURS_RIGHT = {37, 107, 174, 182, 243, 329, 337, 374}
# Cut off amid a repetition, with the right number last by chance.
MATH_CUT_OFF = {55, 474}


def _rows(name: str) -> list[Row]:
    return data_rows(f"grading/{name}.jsonl")


def _truth(name: str, row: Row) -> str:
    # The published "gt" of MATH is normalised past use: "(+5)(b+2)" for "(a+5)(b+2)".
    return row["gt"] if name == GSM8K else row["answer"]


def _ours(name: str, extraction: Extraction) -> dict[int, bool]:
    config = replace(GRADING, extraction=extraction, num_workers=2, time_limit_s=TIME_LIMIT_S)
    with Grader(config) as grader:
        futures = {
            row["idx"]: grader.submit(Problem("", "", _truth(name, row)), row["code"][0], "stop")
            for row in _rows(name)
        }
        verdicts = {index: future.result(timeout=600) == 1.0 for index, future in futures.items()}
        metrics = grader.metrics()
    assert metrics["grading/num_timeouts"] == metrics["grading/num_worker_deaths"] == 0
    return verdicts


def _compare(compare: Callable[[str, str], bool], pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """Verdicts in worker processes."""
    pool = WorkerPool(compare, num_workers=2, time_limit_s=TIME_LIMIT_S)
    try:
        return [future.result(timeout=600) for future in [pool.submit(*pair) for pair in pairs]]
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("name", "extraction", "differing"),
    [
        (GSM8K, "last_number", GSM8K_OURS_RIGHT | GSM8K_FORGIVEN),
        (MATH, "boxed", MATH_FORGIVEN | MATH_UNBOXED | MATH_CUT_OFF | MATH_UNEVALUATED),
        (
            MATH,
            "final_answer",
            MATH_FORGIVEN | MATH_UNANNOUNCED | MATH_CUT_OFF | MATH_OURS_RIGHT | MATH_UNEVALUATED,
        ),
    ],
)
def test_the_published_verdicts(name: str, extraction: Extraction, differing: set[int]) -> None:
    published = {row["idx"]: bool(row["score"][0]) for row in _rows(name)}
    ours = _ours(name, extraction)
    assert {index for index in ours if ours[index] != published[index]} == differing
    right = GSM8K_OURS_RIGHT if name == GSM8K else MATH_OURS_RIGHT
    assert {index for index in differing if ours[index]} == differing & right


@pytest.mark.parametrize(
    ("name", "extraction"), grid((GSM8K, "last_number"), slow=[(MATH, "boxed")])
)
def test_math_verify_alone(name: str, extraction: Extraction) -> None:
    """Searching the whole response itself; of MATH, where there is a box."""
    rows = [
        row for row in _rows(name) if name == GSM8K or extract_boxed(row["code"][0]) is not None
    ]
    assert len(rows) == {GSM8K: 1319, MATH: 230}[name]
    pairs = [(_truth(name, row), row["code"][0]) for row in rows]
    alone = {
        row["idx"]: verdict
        for row, verdict in zip(rows, _compare(comparators.math_verify_alone, pairs), strict=True)
    }
    ours = _ours(name, extraction)
    assert {index for index in alone if ours[index] != alone[index]} == set()
