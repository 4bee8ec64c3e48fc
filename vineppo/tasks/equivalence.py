"""Whether two answers are the same mathematics.

Grading workers import this module, so it imports nothing heavy, and math-verify only when called.
"""

import re
from decimal import Decimal

_NUMBERS_AND_BRACKETS = re.compile(r"[0-9.()\s]++")
_BEFORE_BRACKET = re.compile(r"(?<=[0-9)])\s*+\(")
_PLAIN_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)")


def compare_at_once(answer: str, extracted: str) -> bool | None:
    """The comparison where it is free and certain: identical text, or two plain decimal numbers.

    None where it takes algebra. `compare_at_once("18", "18.00") is True`,
    `compare_at_once("18", "17") is False`, `compare_at_once("0.5", "1/2") is None`.
    """
    answer, extracted = answer.strip(), extracted.strip()
    if answer == extracted:
        return True
    if _PLAIN_NUMBER.fullmatch(answer) and _PLAIN_NUMBER.fullmatch(extracted):
        return Decimal(answer) == Decimal(extracted)
    return None


def is_equivalent(answer: str, extracted: str) -> bool:
    """Whether `extracted` is the same mathematics as the true `answer`, by math-verify.

    A true answer that is a list ("69, 84": every comma outside of brackets has a blank behind it)
    is matched by its items in any order, each once, and by what math-verify takes for the same set.
    Not symmetric, as math-verify is not: the form of the true answer decides what is compared.
    May take forever and may raise: it is meant for a process with a hard time limit.

    `is_equivalent(r"\\frac{1}{2}", "0.5")`, `is_equivalent("C", r"\\text{(C)}")` and
    `is_equivalent("69, 84", "84,69.0")` hold.
    """
    at_once = compare_at_once(answer, extracted)
    if at_once is not None:
        return at_once
    items = list_items(answer)
    is_list = len(items) > 1 and all(item[:1].isspace() for item in items[1:])
    if is_list and _is_permutation(items, list_items(extracted)):
        return True
    return _is_same_expression(answer, extracted)


def list_items(text: str) -> list[str]:
    """The text cut at the commas outside of brackets: "(1,2), 3" gives ["(1,2)", " 3"]."""
    items, start, depth = [], 0, 0
    for place, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            items.append(text[start:place])
            start = place + 1
    return [*items, text[start:]]


def _is_permutation(answers: list[str], extracted: list[str]) -> bool:
    """Whether the texts are equivalent one to one, in any order."""
    if len(answers) != len(extracted):
        return False
    left = list(extracted)
    for answer in answers:
        found = next((i for i, text in enumerate(left) if is_equivalent(answer, text)), None)
        if found is None:
            return False
        del left[found]
    return True


def _is_same_expression(answer: str, extracted: str) -> bool:
    from math_verify import parse, verify

    # As the contents of a box, the whole text is one LaTeX expression; bare, math-verify would
    # search it for the numbers it likes best. Its own time limits interrupt Python code only.
    parsed = [
        parse(f"\\boxed{{{_with_products(text)}}}", parsing_timeout=None, raise_on_error=True)
        for text in (answer, extracted)
    ]
    return verify(parsed[0], parsed[1], timeout_seconds=None, raise_on_error=True)


def _with_products(text: str) -> str:
    """ "1000(26)" with the sign that math-verify, which takes it for a function's value, needs."""
    if not _NUMBERS_AND_BRACKETS.fullmatch(text):
        return text
    return _BEFORE_BRACKET.sub(r" \\cdot (", text)


def warm_up() -> None:
    """Do the imports and build the parser tables, so that no comparison is charged for them."""
    is_equivalent(r"\frac{x}{2}", r"\text{(C)} + 1")
