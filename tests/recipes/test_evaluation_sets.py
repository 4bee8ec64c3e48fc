"""SVAMP and OlympiadBench: rows by hand, every published row, answers in any order."""

from typing import Any

import pytest
from support.shared_data import data_file, data_rows
from support.task_configs import olympiadbench_config, svamp_config

from vineppo.errors import UserError
from vineppo.recipes.evaluation_sets import olympiadbench_problem, svamp_problem
from vineppo.tasks import load_split
from vineppo.tasks.answers import list_items
from vineppo.tasks.equivalence import is_equivalent
from vineppo.tasks.worker_pool import WorkerPool

OLYMPIAD_ROW = {
    "question": "Which?",
    "context": None,
    "final_answer": ["$69$,$84$"],
    "is_multiple_answer": True,
}


@pytest.mark.parametrize(("answer", "expected"), [(51.0, "51"), (2.5, "2.5"), ("10.0", "10")])
def test_svamp_row(answer: object, expected: str) -> None:
    row = {"Body": "He had 3 cats ", "Question": " How many?", "Answer": answer}
    problem = svamp_problem(row, "", "")
    assert (problem.question, problem.answer) == ("He had 3 cats How many?", expected)


@pytest.mark.parametrize(
    ("text", "is_multiple", "expected"),
    [
        ("$69$,$84$", True, "69, 84"), ("1,-1,7,-7", True, "1, -1, 7, -7"),
        ("$(1,8,19), (2,7,13)$", True, "(1,8,19), (2,7,13)"),
        ("$(-\\infty, 0) \\cup\\{1\\}$.", False, "(-\\infty, 0) \\cup\\{1\\}"),
        ("$10,080$", False, "10,080"),
    ],
)  # fmt: skip
def test_olympiadbench_row(text: str, is_multiple: bool, expected: str) -> None:
    row = {**OLYMPIAD_ROW, "final_answer": [text], "is_multiple_answer": is_multiple}
    assert olympiadbench_problem(row, "", "").answer == expected
    problem = olympiadbench_problem({**row, "context": "Let x be 3."}, "", "")
    assert problem.question == "Let x be 3.\nWhich?"


@pytest.mark.parametrize("final_answer", [None, ["1", "2"]])
def test_a_bad_row_is_one_line_that_names_it(final_answer: Any) -> None:
    with pytest.raises(UserError, match=r"^test\.jsonl: row 9: final_answer must"):
        olympiadbench_problem(
            {**OLYMPIAD_ROW, "final_answer": final_answer}, "test.jsonl: row 9", ""
        )


def test_all_of_svamp() -> None:
    problems = load_split(svamp_config(test_path=str(data_file("svamp/SVAMP.json"))), "test")
    assert len(problems) == 1000
    assert problems[0].question.endswith("each pack How much do you have to pay to buy each pack?")
    assert all(problem.answer.isdecimal() for problem in problems)


def test_all_of_olympiadbench() -> None:
    path = str(data_file("olympiadbench/test.jsonl"))
    problems = load_split(olympiadbench_config(test_path=path), "test")
    assert len(problems) == 675
    assert not any("$" in problem.answer for problem in problems)
    lists = [problem.answer for problem in problems if ", " in problem.answer]
    assert "69, 84" in lists


@pytest.mark.slow
def test_several_answers_in_any_order_and_none_left_out() -> None:
    rows = [row for row in data_rows("olympiadbench/test.jsonl") if row["is_multiple_answer"]]
    answers = [olympiadbench_problem(row, "", "").answer for row in rows]
    # One answer is prose: "f(x)=a x+b, where b is …".
    lists = [
        (answer, list_items(answer))
        for answer in answers
        if len(list_items(answer)) > 1 and " where " not in answer
    ]
    assert len(lists) > 85
    turned = [(answer, ",".join(reversed(items))) for answer, items in lists]
    shortened = [
        (answer, ",".join(items[1:]))
        for answer, items in lists
        if len({item.strip() for item in items}) == len(items)
    ]
    pool = WorkerPool(is_equivalent, num_workers=2, time_limit_s=60.0)
    try:
        for pairs, expected in ((turned, True), (shortened, False)):
            for future in [pool.submit(*pair) for pair in pairs]:
                assert future.result(timeout=600) is expected
    finally:
        pool.close()
