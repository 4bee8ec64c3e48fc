import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shared_data import data_rows

from vineppo.tasks import answers
from vineppo.tasks.answers import (
    EXTRACTORS,
    Extractor,
    boxed_contents,
    extract_answer,
    extract_boxed,
    extract_final_answer,
    extract_hash,
    extract_last_number,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so 2*600 = 1,200\n#### $1,200.", "1200"),
        ("####3", "3"),
        ("#### 1\n#### 2\nmore", "2"),
        ("#### -7 ", "-7"),
        ("#####5", "5"),
        ("#### 3, 5", "3, 5"),
        ("#### x = 1,000", "x = 1,000"),  # no number, so nothing is normalised
        *(
            (text, "73")
            for text in ("#### **73**", "#### **73.**", "#### `73`", "**#### 73**.", "#### __73__")
        ),
        ("#### **$1,200**", "1200"),
        ("#### 2 * 3 * 4", "2 * 3 * 4"),
        ("#### a_1 + b_1", "a_1 + b_1"),
        ("####\n5", None),
        ("#### ...", None),
        ("# 5", None),
        ("", None),
    ],
)
def test_hash(text: str, expected: str | None) -> None:
    assert extract_hash(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"hence $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{ 2 }", "2"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\fbox{C}", "C"),
        (r"is $\boxed 7$.", "7"),
        (r"is \boxed7,\boxed8.", "7, 8"),
        (r"is \boxed{**7**}", "7"),
        (r"is \boxed 12.", "12"),
        (r"\boxed  {3}", "3"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),  # an escaped brace needs no partner
        (r"\boxed{a\\}", r"a\\"),
        ("\\boxed{a\nb}", "a\nb"),
        (r"$x = \boxed{1}$ or $x = \boxed{2}$.", "1, 2"),
        (r"$\boxed{(-2,18)}$ and $\boxed{(8,38)}$", "(-2,18), (8,38)"),
        (r"\boxed{1}\text{ and }\boxed{2}", "1, 2"),
        (r"\boxed{3}$, or $\boxed{3}", "3"),
        (r"so \boxed{1}, hence \boxed{2}", "2"),
        (r"\boxed{1} or \boxed{2", None),
        (r"\boxed{}", None),
        (r"\boxed", None),
        (r"\boxedness{3}", None),
        ("boxed{3}", None),
    ],
)
def test_boxed(text: str, expected: str | None) -> None:
    assert extract_boxed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Final Answer: The final answer is $\\frac{1}{2}$. I hope it is correct.", r"\frac{1}{2}"),
        ("The final answer is $3$. No: the FINAL ANSWER IS: 4.\n5", "4"),
        ("The final answer is $\\$10$.", r"\$10"),
        ("The final answer is\n$x = 2$", "x = 2"),
        (r"The final answer is $\boxed{7}$. I hope it is correct.", "7"),
        (r"Hence \boxed{7}. The final answer is 8 I hope it is correct", "8"),
        ("The final answer is $1$ and $2$.", "$1$ and $2$"),  # two formulas stay two
        ("The final answer is $(3,\\frac{\\pi}{2}).$ I hope it is correct.", r"(3,\frac{\pi}{2})"),
        ("The final answer is $.", "$"),
        ("The final answer is **$3$**.", "3"),
        ("**The final answer is** 3.", "3"),
        ("**The final answer is: 3**", "3"),
        ("The final answer is. I hope it is correct.", None),
        ("The answer is 5", None),
        ("", None),
    ],
)
def test_final_answer(text: str, expected: str | None) -> None:
    assert extract_final_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("So it is.\nAnswer: $34$.", "34"), ("Answer: 3\nNo.\n**Answer:** 4", "4"),
        ("Answer: \\boxed{7}", "7"), ("**Final Answer**: **12**", "12"), ("answer :\n5", "5"),
        ("Answer:", None), ("My answers: 5", None), ("The answer is 5", None),
    ],
)  # fmt: skip
def test_answer(text: str, expected: str | None) -> None:
    assert extract_answer(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs $1,234.50 in all.", "1234.50"),
        ("is -3.", "-3"),
        ("is −3", "-3"),
        ("-$5 and $-6", "-6"),
        ("10-3", "3"),  # a minus between numbers subtracts
        ("x = -3/4", "-3/4"),
        ("about 75%", "75"),
        ("about 75\\%.", "75"),
        (".5 left", ".5"),
        ("1,2,3", "3"),
        ("about 9 500 of them", "9500"),
        (r"is $9\,500$", "9500"),
        ("is 9{,}500.5", "9500.5"),
        ("in 2020 300 came", "300"),
        ("1,23456", "23456"),
        ("3 H2O, 2nd try, x_1 and v2", "3"),
        ("50km", "50"),
        ("答案是5", "5"),
        ("none", None),
        ("", None),
    ],
)
def test_last_number(text: str, expected: str | None) -> None:
    assert extract_last_number(text) == expected


@pytest.mark.parametrize("extract", EXTRACTORS.values())
@given(text=st.text() | st.text(alphabet="\\boxedf{}#$ 0123456789.,-/%\nst"))
def test_any_text_gives_none_or_a_stripped_nonempty_answer(extract: Extractor, text: str) -> None:
    answer = extract(text)
    assert answer is None or (answer and answer == answer.strip())


class _Counted:
    """A pattern that adds up the characters that it looks at; none of ours backtracks."""

    def __init__(self, pattern: re.Pattern[str], counts: list[int]) -> None:
        self._pattern, self._counts = pattern, counts

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            result = getattr(self._pattern, name)(*args, **options)
            count = len(args[name == "sub"])
            if name == "match":
                count = len(result[0]) if result else 0
            elif len(args) == 3:  # fullmatch(text, start, end)
                count = args[2] - args[1]
            self._counts.append(1 + count)
            return result

        return call


@pytest.mark.parametrize("extract", EXTRACTORS.values())
@pytest.mark.parametrize(
    "unit",
    [
        *("\\boxed{", "\\boxed{}", "\\boxed{1},", "\\boxed ", "{", "}", "\\", "1", "1,", "111,"),
        *("\\boxed1,", "\\boxed1", "\\fbox1;", "\\boxed\\", "\\boxed{1} and ", "\\boxed\\boxed{"),
        *("1/", "-", "$", "1st", "####", "*", "**a", "**a ", "`", "_a_"),
        *(
            " ",
            "$\\",
            "final answer is",
            "Answer:",
            "answer ",
            "final answer is $",
            "I hope it is correct",
            ". ",
        ),
    ],
)
def test_adversarial_texts_take_linear_time(
    extract: Extractor, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in characters that patterns look at: a fixed number for each of the text's."""
    counts: list[int] = []
    for key, pattern in [*vars(answers).items()]:
        if isinstance(pattern, re.Pattern):
            monkeypatch.setattr(answers, key, _Counted(pattern, counts))
    for opening in ("", "\\boxed{", "final answer is $"):
        text = opening + unit * 3000
        counts.clear()
        extract(text)
        assert sum(counts) <= 8 * len(text)


def test_boxed_finds_the_published_answers_of_math() -> None:
    rows = data_rows("math_prm800k_split/test.jsonl")
    assert len(rows) == 500
    assert [boxed_contents(row["solution"])[-1] for row in rows] == [row["answer"] for row in rows]
