"""Countdown: every generated problem is solved by its answer, and the checker by hand."""

from pathlib import Path

import pytest

from vineppo.config.load import load_config
from vineppo.config.schema import TrainConfig
from vineppo.errors import UserError
from vineppo.recipes.countdown import numbers_of, reward, value_of
from vineppo.tasks import load_task
from vineppo.tasks.grading import Grader

LEAF = str(Path(__file__).parents[2] / "configs" / "recipes" / "countdown.jsonnet")
SIZES = ["task.num_train_problems=300", "task.num_test_problems=50"]


def test_problems_are_solved_by_their_answers_and_none_is_in_both_sets():
    task = load_config(TrainConfig, LEAF, SIZES).task
    data = load_task(task)
    assert (len(data.train_P), len(data.test_P)) == (300, 50)
    assert len({problem.question for problem in (*data.train_P, *data.test_P)}) == 350
    for problem in (*data.train_P, *data.test_P):
        given, _, target = problem.question.split(".")[0].partition(", make ")
        assert numbers_of(given) == numbers_of(problem.answer)
        assert value_of(problem.answer) == int(target)
    with Grader(task.grading) as grader:
        texts = [f"Answer: {problem.answer}", "Answer: 1+1"]
        assert [grader.submit(problem, t, "stop").result() for t in texts] == [1.0, 0.0]
    too_many = [*SIZES, "task.num_numbers=2", "task.max_number=10", "task.max_target=11"]
    with pytest.raises(UserError, match=r"num_train_problems: there are too few different"):
        load_task(load_config(TrainConfig, LEAF, too_many).task)


RIGHT = [
    "(50-3)*2+25", "2*(50 - 3) + 25 = 119", r"$2 \times (50-3) + 25$", r"\boxed{25+(50-3)×2}",
]  # fmt: skip
WRONG = [
    "119", "100+19", "50+50+25-2*3", "(50-3)*2+25 = 120", "(50-3)*2+25 = 119 = 119", "2**3",
    "50//3", "(50-3)/(1/2)+25", "3/(2-2)", "f(50)", "__import__('os')", "(" * 300,
    "-" * 190 + "1", "1" * 5000, "50 3", "()", "", "0x32", "5_0", "1e2+3",
]  # fmt: skip


def test_the_checker():
    """2, 3, 25 and 50 make 119: by any order of the numbers, and nothing is executed."""
    for text in RIGHT:
        assert reward("", RIGHT[0], f"So.\n**Answer:** {text}") == 1, text
    for text in WRONG:
        assert reward("", RIGHT[0], f"Answer: {text}") == 0, text
    assert reward("", "4/(1-2/3)", "Answer: 4 ÷ (1 − 2÷3) = 12") == 1  # exact fractions
    assert reward("", "(2*6)+50", "Answer: 50+2*6") == 1
    assert reward("", RIGHT[0], "(50-3)*2+25") == 0
