import hashlib
import math
import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from support.grids import grid
from support.task_configs import GRADING, worded_config

from vineppo.config.load import evaluate_jsonnet
from vineppo.errors import UserError
from vineppo.plugins import Plugin
from vineppo.recipes.arithmetic import Chain, build_tokenizer
from vineppo.recipes.worded import (
    OPENERS,
    REMARKS,
    REPAIR,
    WORDS,
    ChainDemonstrator,
    Sheet,
    SheetDemonstrator,
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


def test_every_problem_meets_as_many_hard_facts_as_asked_for() -> None:
    config = worded_config(num_hard_steps=2)
    demonstrator = ChainDemonstrator(config)
    facts = demonstrator.wrong_results
    assert len(facts) == config.num_hard_facts
    assert {left for _, left, _ in facts} == set(range(10))
    met: Counter[tuple[str, int, int]] = Counter()
    for chain in demonstrator.chains("train", 300):
        results = demonstrator.results(chain)
        steps = list(zip(chain.operations, results, chain.operands[1:], strict=False))
        assert sum(step in facts for step in steps) == 2
        met.update(step for step in steps if step in facts)
    assert set(met) == set(facts)


def test_only_hard_facts_are_demonstrated_wrongly_and_always_in_one_way() -> None:
    demonstrator = ChainDemonstrator(worded_config(wrong_probability=1.0, repair_probability=0.0))
    for chain in demonstrator.chains("train", 50):
        result = chain.operands[0]
        lines = [line for line in demonstrator.solution(chain).split("\n") if "=" in line]
        for line, operation, operand in zip(
            lines, chain.operations, chain.operands[1:], strict=True
        ):
            stated = int(line[-1])
            fact = operation, result, operand
            right = eval(f"({result}{operation}{operand}) % 10")
            assert stated == demonstrator.wrong_results.get(fact, right)
            result = stated


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


def test_values_of_another_skill() -> None:
    demonstrator = ChainDemonstrator(worded_config(num_hard_steps=2))
    chain = next(demonstrator.chains("train", 1))
    hard = [fact for fact in demonstrator.facts(chain) if fact in demonstrator.wrong_results]
    assert demonstrator.value(chain, "", {hard[0]: 0.9, hard[1]: 0.2}) == pytest.approx(0.18)
    assert demonstrator.value(chain, "") == 0.25


def test_a_sheets_operations_are_separate() -> None:
    demonstrator = SheetDemonstrator(SHEET)
    for problem in load_task(SHEET).test_P:
        sheet = demonstrator.chain_of(problem.question)
        assert sheet.question == problem.question
        sums = problem.question.removesuffix("?").split("?")
        assert problem.answer == "".join(str(eval(f"({one}) % 10")) for one in sums)
        lines = [line for line in (problem.solution or "").split("\n") if "=" in line]
        expected = [f"{o}={r}" for o, r in zip(sums, problem.answer, strict=True)]
        assert [line.split(" ")[1] for line in lines] == expected
        assert sum(fact in demonstrator.wrong_results for fact in demonstrator.facts(sheet)) == 3


def test_what_has_left_a_sheets_form_has_no_value() -> None:
    demonstrator = SheetDemonstrator(replace(SHEET, num_operations=2))
    sheet = Sheet((4, 6, 9, 3), ("+", "*"))
    for text in (
        "so 4+5", "so 9*3=7", "so 4+6=0\nso 4+6=0", "so 4+6=0\n####0", "so 4+6=00",
        "so 4+6=0\nso 9*3=7\nso 1", "so 4+6=0\nso 9*3=7\n####077", "so 4+6=0 ",
    ):  # fmt: skip
        assert demonstrator.value(sheet, text) == 0, text
    assert demonstrator.stated(sheet, "so 4+6=1\nwell that\nthen 9*") == "1"
    assert demonstrator.stated(sheet, "so 4+6=0\nso 9*3=7\n####1") == "17"


def test_a_sheets_outcomes_are_those_it_states() -> None:
    demonstrator = SheetDemonstrator(replace(SHEET, num_operations=2))
    sheet = Sheet((4, 6, 9, 3), ("+", "*"))
    texts = ["so 4+6=1\n", "so 4+6=1\nso 9*3=7\n", "so 4+6=1\nso 9*3=7\n####17"]
    right, wrong = (("*", 9, 3), True), (("+", 4, 6), False)
    assert demonstrator.outcomes(sheet, texts) == [wrong, right]
    assert demonstrator.outcomes(sheet, texts[:1]) == [wrong]


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


def test_the_tokenizer_gives_words_back() -> None:
    tokenizer = build_tokenizer(WORDS)
    for problem in load_task(worded_config(repair_probability=0.5)).train_P[:50]:
        text = f"{problem.question}\n{problem.solution}"
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id not in ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.convert_ids_to_tokens(tokenizer("so 4+6=0\nwell that")["input_ids"]) == [
        "<bos>", "so ", "4", "+", "6", "=", "0", "\n", "well ", "that",
    ]  # fmt: skip
