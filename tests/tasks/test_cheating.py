"""Texts that a policy could be paid for without an answer, and right answers in other notations.

docs/data_and_grading.md has the figures, with those of the grader before.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.grids import grid
from support.shared_data import data_rows
from support.task_configs import GRADING

from vineppo.tasks.answers import normalize, squeeze
from vineppo.tasks.equivalence import compare_at_once, is_equivalent
from vineppo.tasks.grading import Grader
from vineppo.tasks.published import Gsm8kTask, MathTask
from vineppo.types import Problem

_STEP = re.compile(r"<<([^<>=\n]*)=([^<>\n]*)>>")
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$((?:[^$\\]|\\.)+?)\$|\\\[(.+?)\\\]", re.DOTALL)


def _undone(worked: str) -> str | None:
    """The last step of a GSM8K solution with those before put in: "2*(3+4)"."""
    known: dict[str, str] = {}
    expression = None
    for step in _STEP.finditer(worked):
        expression = re.sub(r"[0-9]*\.?[0-9]+", lambda n: known.get(n[0], n[0]), step[1])
        known[step[2]] = f"({expression})" if len(expression) < 150 else step[2]
    return expression


def test_a_computation_left_undone_is_no_answer() -> None:
    num_right = 0
    for row in data_rows("gsm8k/test.jsonl"):
        answer = Gsm8kTask.problem(row, "", "").answer
        expression = _undone(row["answer"])
        if expression is None or re.fullmatch(r"[0-9.]+", expression.strip()):
            continue
        num_right += answer == f"{_value(expression):g}"
        assert compare_at_once(answer, expression.strip()) is False
    assert num_right > 1100


def _value(expression: str) -> float:
    try:
        return float(eval(expression, {"__builtins__": {}}))
    except SyntaxError:  # "5%*20"
        return float("nan")


# What a copied formula may be put in, at no cost.
_WRAPPERS = ("A", "A+0.0", "A+(0)", r"\frac{A}{1}", "1.0(A)", "2(A)-(A)", "y=1.0(A)", "{A}")


@pytest.mark.slow
def test_a_formula_of_the_question_is_no_answer() -> None:
    """Boxed copies of the questions' formulas: those that are paid for are numbers and names."""
    right: dict[str, set[int]] = {wrapper: set() for wrapper in _WRAPPERS}
    right_first: set[int] = set()
    rows = data_rows("math_prm800k_split/train.jsonl")[:3000]
    with Grader(replace(GRADING, extraction="boxed", num_workers=2)) as grader:
        futures = []
        for index, row in enumerate(rows):
            problem = MathTask.problem(row, "", "")
            texts = dict.fromkeys(
                next(filter(None, match.groups())) for match in _FORMULA.finditer(row["problem"])
            )
            for place, text in enumerate(texts):
                for wrapper in _WRAPPERS:
                    boxed = rf"\boxed{{{wrapper.replace('A', text)}}}"
                    future = grader.submit(problem, boxed, "stop")
                    futures.append((index, place, wrapper, future))
        for index, place, wrapper, future in futures:
            if future.result(timeout=600) == 1.0:
                right[wrapper].add(index)
                right_first |= {index} if (place, wrapper) == (0, "A") else set()
        assert grader.metrics()["grading/num_timeouts"] == 0
    assert (len(right_first), len(right["A"])) == (2, 21)
    assert len(set.union(*right.values())) == 21


# Texts that cost nothing and answer no question: accepted means wrongly accepted.
_NO_ANSWERS = (
    *("x=x", "0=0", "1=2", r"\infty=\infty", "?", r"\ldots", r"\pm 1", r"\frac{0}{0}", "()", "nan"),
    *(r"\{\}", r"\mathbb{R}", r"(-\infty,\infty)", "0,1,2,3,4,5,6,7,8,9,10", r"0 \text{ or } 1"),
    *("A,B,C,D,E", r"\text{the answer}", r"\text{all of the above}", "f(x)", "True"),
)
# But where one of them happens to be right, in other words.
_RIGHT = {
    *((r"\pm 1", "1,-1"), (r"\pm 1", "-1,1"), ("0=0", "0"), ("0=0", "b=0")),
    (r"\mathbb{R}", r"(-\infty,\infty)"),
}


@pytest.mark.parametrize("every", grid(2000, slow=[1]))
def test_a_universal_answer_is_never_accepted_wrongly(every: int) -> None:
    rows = [data_rows(f"math_prm800k_split/{split}.jsonl") for split in ("train", "test")]
    answers = {MathTask.problem(row, "", "").answer for row in (*rows[0], *rows[1])}
    answers |= {
        Gsm8kTask.problem(row, "", "").answer
        for split in ("train", "test")
        for row in data_rows(f"gsm8k/{split}.jsonl")
    }
    hard = (r"0.56 = 56\%", "0", "(0,1)", "(-1,1)", "84a^2 + 100b^2 - 168a - 441 = 0")
    chosen = [*sorted(answers)[::every], *hard]
    with Grader(replace(GRADING, extraction="boxed", num_workers=2)) as grader:
        rewards = {
            (text, answer): grader.submit(Problem("", "", answer), f"\\boxed{{{text}}}", "stop")
            for answer in chosen
            for text in _NO_ANSWERS
            if squeeze(normalize(text)) != squeeze(normalize(answer))
        }
        accepted = {pair for pair, reward in rewards.items() if reward.result(timeout=600) > 0}
    assert accepted - _RIGHT == set()


_FORMS: tuple[Callable[[str], str], ...] = (
    lambda answer: f"{answer}.",
    lambda answer: f"${answer}$",
    lambda answer: re.sub(r"\\[dtc]?frac", r"\\dfrac", answer),
    lambda answer: re.sub(r"\\left|\\right", "", answer),
    lambda answer: re.sub(r"\\(?:text|mbox)\s*\{([^{}]*)\}", r"\1", answer),
    lambda answer: re.sub(r"(?<=[0-9])(?:,\s*\\!\s*|\{,\})", "", answer),
    lambda answer: re.sub(r"(?<=[0-9])(?:,\s*\\!\s*|\{,\})", r"\\,", answer),
    lambda answer: re.sub(r"\\[dt]?frac\{([0-9])\}\{([0-9])\}", r"\\frac\1\2", answer),
    lambda answer: re.sub(r"^(-?)\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}$", r"\1\2/\3", answer),
    lambda answer: re.sub(r"^(-?[0-9.]+)(?:\s*\\text\{[^{}]*\}|\^\\circ|\\%)\.?$", r"\1", answer),
    lambda answer: re.sub(r"^(-?[0-9]+)$", r"x = \1", answer),
)


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_answer_of_math_is_right_in_other_notations(split: str) -> None:
    rows = data_rows(f"math_prm800k_split/{split}.jsonl")
    answers = {MathTask.problem(row, "", "").answer for row in rows}
    wrong = {
        (answer, form(answer))
        for answer in answers
        for form in _FORMS
        if not is_equivalent(answer, form(answer)) and "a.m." not in answer
    }
    assert wrong == set()
