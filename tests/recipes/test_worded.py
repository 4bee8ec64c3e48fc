import hashlib
import math
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from support.grids import grid
from support.task_configs import GRADING, worded_config

from vineppo.config.load import evaluate_jsonnet
from vineppo.errors import UserError
from vineppo.plugins import Plugin
from vineppo.recipes.arithmetic import Chain
from vineppo.recipes.worded import (
    OPENERS,
    REMARKS,
    REPAIR,
    ChainDemonstrator,
    WordedTask,
)  # fmt: skip
from vineppo.tasks import TaskData, load_task
from vineppo.tasks.grading import Grader
from vineppo.types import Problem

PASS_MARK = replace(GRADING, num_matching=3)
SHEET = worded_config(layout="sheet", num_hard_steps=3, wrong_probability=0.4, grading=PASS_MARK)


def test_a_problem_is_a_chain_with_free_lines() -> None:
    config = worded_config(num_operations=3, num_hard_steps=1, num_remarks=2, num_openers=4)
    for problem in load_task(config).train_P:
        assert problem.solution is not None
        *lines, last = problem.solution.split("\n")
        assert len(lines) == 3 * (1 + 2)
        for start in range(0, len(lines), 3):
            opener, equation = lines[start].split(" ")
            assert opener in OPENERS[:4]
            assert equation[3] == "="
            for remark in lines[start + 1 : start + 3]:
                first, second = remark.split(" ")
                assert first in REMARKS[0]
                assert second in REMARKS[1]
        stated = "".join(line[-1] for line in lines[::3])
        assert last == f"####{problem.question[0]}{stated}"


@pytest.mark.parametrize(
    ("setting", "digests"),
    grid(
        ("credit_sheet", ["e5504a2c", "68452e3f"]),
        slow=[
            ("credit_short", ["1358d65a", "15a2d921"]),
            ("credit_long", ["f9dfb779", "7a1af260"]),
        ],
    ),
)
def test_the_experiments_problems_stay_what_they_were(configs, setting, digests) -> None:
    """An order of draws that changed would leave all else right, and compare runs on two tests."""
    tasks = evaluate_jsonnet(str(configs / "lib/task.libsonnet"))
    problems = load_task(Plugin("task").parse(tasks[setting]))
    for problems_P, digest in zip((problems.train_P, problems.test_P), digests, strict=True):
        questions = "".join(problem.question for problem in problems_P)
        assert hashlib.md5(questions.encode()).hexdigest()[:8] == digest


@pytest.mark.parametrize("modulus", [3, 10])
def test_answers_carry_every_right_result(modulus: int) -> None:
    config = worded_config(modulus=modulus, num_hard_facts=modulus)
    data = load_task(config)
    for problem in (*data.train_P, *data.test_P):
        result, answer = int(problem.question[0]), problem.question[0]
        for operation, operand in zip(
            problem.question[1:-1:2], problem.question[2::2], strict=True
        ):
            result = eval(f"({result}{operation}{operand}) % {modulus}")
            answer += str(result)
        assert problem.answer == answer
        assert answer[0] != "0"
    assert all((p.solution or "").endswith(f"####{p.answer}") for p in data.test_P)


PIECES = re.compile(r"####|[a-z]+ ?|[\s\S]")  # the tokenizer's


@pytest.mark.parametrize(
    ("config", "most"),
    [
        (worded_config(num_hard_steps=3, wrong_probability=0.4), 5),
        (worded_config(num_hard_steps=3, wrong_probability=0.4, repair_probability=0.4), 8),
        (SHEET, 6),
    ],
)
def test_values_are_the_means_of_the_returns_that_follow(config: WordedTask, most: int) -> None:
    """At every token, of the states that share a value, to within 4.5 standard errors."""
    demonstrator = config.demonstrator()
    outcomes, num_repairs = defaultdict(list), 0
    with Grader(config.grading) as grader:
        for chain in demonstrator.chains("train", 3):
            problem = Problem("p", chain.question, demonstrator.answer(chain))
            for sample in range(500):
                text, so_far = demonstrator.solution(chain, sample=sample), ""
                num_repairs += f"{REPAIR} " in text
                reward = grader.submit(problem, text, "stop").result()
                for place, piece in enumerate(PIECES.findall(text)):
                    outcomes[demonstrator.value(chain, so_far), place].append(reward)
                    so_far += piece
                assert demonstrator.value(chain, text) == pytest.approx(reward)
    assert (num_repairs > 0) == (config.repair_probability > 0)
    assert len({round(value, 9) for value, _ in outcomes}) >= most
    for (value, _), rewards in outcomes.items():
        error = sum(rewards) / len(rewards) - value
        assert abs(error) <= 4.5 * math.sqrt(max(value * (1 - value), 0) / len(rewards)) + 1e-9


def test_what_is_off_the_track_has_no_value() -> None:
    chain = Chain((4, 6, 3), ("+", "*"))
    demonstrator = ChainDemonstrator(worded_config(num_operations=2, repair_probability=0.5))

    def value(text: str) -> float:
        return demonstrator.value(chain, text)

    right = value("so 4+6=0\n")
    assert right > 0
    assert value("so 4+6=1") == value("so 4+6=1\n") == pytest.approx(0.5 * right)
    assert value("so 4+6=1\nno 4+") == value("so 4+6=1\nno 4+6=0\nwell that\n") == right
    assert value("so 4+6=0\nthen 0*3=0\n####400") == 1
    for text in (
        "so 4+6=1\nwell that", "so 4+6=1\nthen 1", "so 4+6=1\nno 4+6=2", "so 4+6=0\nno 4+6=0",
        "so 4+5", "so 4+6=0\nso 0*3=0\nso 0", "so 4+6=0\nso 0*3=0\n####401", "so 4+6=0\n####40",
        "so 4+6=00", "so 4+6=0 ", "then 0*3=0",
    ):  # fmt: skip
        assert value(text) == 0, text


def checked(**changes: Any) -> TaskData:
    config = worded_config(**changes)
    config.check("task", None)
    return load_task(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hard_steps": 5}, "task.num_hard_steps must be at most task.num_operations (4)"),
        ({"num_hard_facts": 9}, "task.num_hard_facts must be between task.modulus (10) and 290"),
        ({"num_operations": 1, "num_hard_steps": 1}, "raise task.num_operations"),
        ({"layout": "sheet"}, "task.grading.num_matching must be at most task.num_operations (4)"),
        ({"layout": "sheet", "grading": PASS_MARK, "repair_probability": 0.1}, "must be 0"),
        ({"grading": PASS_MARK}, "task.grading.num_matching must be null for a chain, got 3"),
    ],
)
def test_contradictions_are_one_line(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=r"^[^\n]*$") as error:
        checked(**changes)
    assert message in str(error.value)
