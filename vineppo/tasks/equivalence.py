"""Whether two answers are the same mathematics.

Grading workers import this module, so it imports nothing heavy, and math-verify only when called.
"""

import re
from decimal import Decimal

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

    Not symmetric, as math-verify is not: the form of the true answer decides what is compared.
    May take forever and may raise: it is meant for a process with a hard time limit.

    `is_equivalent(r"\\frac{1}{2}", "0.5")` and `is_equivalent("C", r"\\text{(C)}")` hold.
    """
    at_once = compare_at_once(answer, extracted)
    if at_once is not None:
        return at_once
    from math_verify import parse, verify

    # As the contents of a box, the whole text is one LaTeX expression; bare, math-verify would
    # search it for the numbers it likes best. Its own time limits interrupt Python code only.
    parsed = [
        parse(f"\\boxed{{{text}}}", parsing_timeout=None, raise_on_error=True)
        for text in (answer, extracted)
    ]
    return verify(parsed[0], parsed[1], timeout_seconds=None, raise_on_error=True)


def warm_up() -> None:
    """Do the imports and build the parser tables, so that no comparison is charged for them."""
    is_equivalent(r"\frac{x}{2}", r"\text{(C)} + 1")
