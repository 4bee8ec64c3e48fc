"""Answers that copy the question: with them nothing was worked out."""

import re
from functools import lru_cache

from vineppo.tasks.notation import (
    ABOUT,
    EQUALS,
    NAME,
    OPERATION,
    list_items,
    literal,
    normalize,
    split,
    squeeze,
)

_MARKS = re.compile(r"\$+|\\[()\[\]]")  # around a formula
_RELATION = re.compile(r"[,=<>]|\\(?:[lg]eq?|neq?|approx|in)(?![A-Za-z])|\\\\(?!.*\\end)")
_NOT_COMPARED = re.compile(r"[\s(){}\[\]*×]|\\(?:cdot|times|text)(?![A-Za-z])|[pb](?=matrix)")


def is_copied(question: str, answer: str, extracted: str) -> bool:
    """True if an answer holds a formula of the question.

    A formula has an operation and does not stand in the true answer. The last side of an equation
    decides, or every one if the true answer is an equation.
    `is_copied("Expand $(x+1)^2$.", "x^2+2x+1", "y = 2(x + 1)^2 - (x+1)^2")` holds.
    """
    gold, text = normalize(answer), normalize(extracted)
    *names, last = split(text, EQUALS)
    if _is_worked_out(last) and all(map(NAME.fullmatch, names)):
        return False
    first = 0 if len(split(gold, EQUALS)) > 1 else -1
    sides = [
        side
        for item in list_items(text)
        for part in split(item, ABOUT)
        for side in split(part, EQUALS)[first:]
        if not _is_worked_out(side)
    ]
    truth, asked = squeeze(gold), squeeze(normalize(question))
    bare_truth, formulas = _bare(gold), _formulas(question)

    def is_held(part: str) -> bool:
        if OPERATION.search(part) and squeeze(part) in asked and squeeze(part) not in truth:
            return True
        bare, num_sides = _bare(part), len(split(part, EQUALS))
        # An equation holds one of the question with marks before it, not as the end of a chain.
        return any(
            formula not in bare_truth
            and num_sides == num_asked
            and (bare.endswith(formula) if num_sides > 1 else formula in bare)
            for formula, num_asked in formulas
        )

    return any(map(is_held, [text, *sides]))


def _is_worked_out(side: str) -> bool:
    """True if the text is a number, and no fraction that may be reduced."""
    number = literal(side.strip())
    if number is None or not number.is_fraction:
        return number is not None
    return re.findall("[0-9]+", side) == [str(abs(x)) for x in number.value.as_integer_ratio()]


@lru_cache(maxsize=256)
def _formulas(question: str) -> frozenset[tuple[str, int]]:
    """The question's formulas and sides that have an operation, each with its number of sides."""
    formulas = [normalize(formula) for formula in _MARKS.split(question)[1::2]]
    parts = [
        part.strip(" &").rstrip("+-")
        for whole in formulas
        for part in [whole, *split(whole, _RELATION)]
    ]
    return frozenset(
        (_bare(part), len(split(part, EQUALS)))
        for part in parts
        if OPERATION.search(part) and literal(part) is None
    )


def _bare(text: str) -> str:
    """The text without brackets and multiplication signs, to be searched for another."""
    return _NOT_COMPARED.sub("", squeeze(text))
