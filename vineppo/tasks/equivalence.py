"""Compare two answers as mathematics.

Both texts are brought to one notation first. If the true answer is a number, the other must be one
too: what still has to be computed is no answer. All else is compared part by part, and what has no
parts by math-verify as one expression. A text that cannot be parsed is wrong.

Grading workers import this module, so it imports nothing heavy, and math-verify only when called.
"""

import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from vineppo.tasks.answers import (
    ABOUT,
    EQUALS,
    NAME,
    OPERATION,
    PLAIN_FRACTION,
    TEXT,
    Literal,
    bracketed_items,
    list_items,
    literal,
    normalize,
    split,
    squeeze,
)
from vineppo.tasks.safe_sympy import parse

_FLOAT_ERROR = Fraction(1, 10**14)  # what a float's rounding may add up to
_MAX_CHARS = 1000  # no true answer of the published sets has 200
_PLAIN_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)")
_EQUALS_OR_ABOUT = re.compile(rf"{EQUALS.pattern}|{ABOUT.pattern}")
_SEPARATOR = re.compile(r",(?![0-9]{3}(?![0-9]))|(?<![0-9]),")  # no comma of 1,234
# Commands that a computation is made of; \theta, \angle and the like name something.
_OF_A_COMPUTATION = re.compile(
    r"\\(?:frac|sqrt|cdot|times|div|binom|pi|infty|pm|circ|log|ln|sin|cos|tan)"
)
_UNIT = re.compile(r"(?<=[^\s\-+*/({])(?<!\\cdot)(?<!\\times)\s*\\text\{[^{}]*\}")
_STRUCTURE = re.compile(r"[()\[\],&{}]|\\[{}\\]|\\(?:begin|end)\{[a-z]*matrix\}|\\cup(?![A-Za-z])")
_SIGNED_INFINITY = re.compile(r"[-+]?\\infty")
_MATRIX_PRODUCT = re.compile(r"\\end\{\w+\}\s*\\begin")
# Texts that are no product of letters: words, names in capitals, choices, times of the day.
_WORDS = re.compile(r"\(?[A-Z]\)?|[A-Z]{2,}|[A-Za-z]{4,}(?:[ -][A-Za-z0-9]+)*|[0-9]+:[0-9]{2}.*")
# Several answers, once "or" is a comma; a matrix and a union have commas as well.
_SEVERAL = re.compile(r"^[^()\[\]{}]*,|^\s*\\pm(?![A-Za-z])")
# A name or a pair of names at the end of a side, unless an operation joins it.
_LAST_NAME = re.compile(
    r"(?<=[^\s\-+*/^_(\[{'])(?<!\\cdot)(?<!\\times)(?<!\\div)\s*"
    rf"(?<![A-Za-z\\])(?:{NAME.pattern}|\((?:[a-z],\s*)+[a-z]\))$"
)
_APART = re.compile(rf"-?[0-9.]+\s+{NAME.pattern}")
_WORD_BEFORE = re.compile(
    r"(?:\\text\{[^{}]*\}|(?<=\s)[A-Za-z]{2,}|[0-9]\s*[:;.]|\\[lcv]?dots)\s*$"
)
_SEPARATOR_BEFORE = re.compile(r"(?:\\[A-Za-z]+|\\?[^\w\s)}\]'!])\s*$")
_ARROW = re.compile(r"\\(?:[A-Za-z]*arrow|implies|iff|to)(?![A-Za-z])|[→⇒⟹]")


def compare_at_once(answer: str, extracted: str) -> bool | None:
    """The comparison of the same text or with a number as true answer; None: it takes algebra.

    `compare_at_once("18", "17+1") is False`, `compare_at_once("x+1", "1+x") is None`.
    """
    answer, extracted = answer.strip(), extracted.strip()
    if answer == extracted:
        return True
    if _PLAIN_NUMBER.fullmatch(answer) and _PLAIN_NUMBER.fullmatch(extracted):
        return Decimal(answer) == Decimal(extracted)
    if len(extracted) > _MAX_CHARS:
        return False
    return _compare_notations(normalize(answer), normalize(extracted))


def is_equivalent(answer: str, extracted: str) -> bool:
    r"""True if `extracted` is the same mathematics as the true `answer`.

    A number is matched by a number alone: "24" by "24.0" and "x = 24", not by "4!". A list
    ("69, 84") is matched by its items in any order, each once, or by what math-verify takes for the
    same set. Not symmetric: the form of the true answer decides what is compared. May take forever
    and may raise: it is meant for a process with a hard limit.

    `is_equivalent("C", r"\text{(C)}")` and `is_equivalent("69, 84", "84,69.0")` hold.
    """
    at_once = compare_at_once(answer, extracted)
    return _is_same(normalize(answer), normalize(extracted)) if at_once is None else at_once


def _compare_notations(gold: str, given: str) -> bool | None:
    """`compare_at_once` for normalized texts."""
    if squeeze(gold) == squeeze(given):
        return gold != ""
    number = literal(gold)
    return None if number is None else _is_number(number, given)


def _is_number(number: Literal, given: str) -> bool | None:
    """True if `given` is the number, in one form or several; None: `computation = number`."""
    items = split(given, _SEPARATOR)
    if len(items) > 1:
        return all(_is_number(number, item.strip()) for item in items)
    head, *about = split(given, ABOUT)
    if about and not _names_something(split(head, EQUALS)[-1]):
        return None
    *sides, last_side = split(given, _EQUALS_OR_ABOUT)
    if len(sides) == 1 and NAME.fullmatch(last_side):  # 4 = x
        sides, last_side = [last_side], sides[0]
    form = literal(last_side.strip())
    if form is None or not _is_same_number(number, form):
        return False
    return True if len(sides) < 2 and all(map(_names_something, sides)) else None


def _is_same_number(gold: Literal, given: Literal) -> bool:
    """Exactly the same, or as near as a decimal of six digits and another number can be."""
    # 20/4 is still to be computed for 5.
    if given.is_fraction and given.value.denominator == 1 and not gold.is_fraction:
        return False
    if gold.base and given.base and gold.base != given.base:
        return False
    factors = [Fraction(1)]  # 50 % is 50 and 1/2, if the true answer leaves it open
    if given.is_percent and not gold.is_percent:
        factors = [Fraction(1, 100), *(factors if abs(gold.value) >= 1 else [])]
    elif gold.is_percent and not given.is_percent:
        factors += [Fraction(100)]
    for factor in factors:
        scaled = replace(given, value=given.value * factor, step=given.step * factor)
        if gold.value == scaled.value:
            return True
        if gold.is_decimal != scaled.is_decimal:
            decimal, exact = (gold, scaled) if gold.is_decimal else (scaled, gold)
            if _is_rounded(decimal, exact.value, min_digits=6):
                return True
    return False


def _is_rounded(decimal: Literal, exact: Fraction, min_digits: int) -> bool:
    """True if the decimal is the exact number, rounded or cut off after at least `min_digits`."""
    off = abs(decimal.value - exact)
    if off <= abs(exact) * _FLOAT_ERROR:
        return True
    is_cut_off = abs(decimal.value) < abs(exact) and off < decimal.step
    return (
        exact.denominator != 1
        and (is_cut_off or 2 * off <= decimal.step)
        and abs(decimal.value) >= 10 ** (min_digits - 1) * decimal.step
    )


def _is_same(gold: str, given: str) -> bool:
    """`is_equivalent` for normalized texts."""
    gold, given = gold.strip(), given.strip()
    at_once = _compare_notations(gold, given)
    if at_once is not None:
        return at_once
    golds, items = list_items(gold), list_items(given)
    brackets, inside = bracketed_items(gold)
    brackets_given, inside_given = bracketed_items(given)
    is_set = brackets_given == r"\{\}"
    if is_set and (len(golds) > 1 or all(map(EQUALS.search, inside_given))):
        items = inside_given
    if len(golds) > 1:
        if _is_permutation(golds, items):
            return True
        is_one = brackets_given and not is_set  # a pair or interval
        return not is_one and _is_same_whole(gold, given)
    if len(items) > 1:
        if all(_is_same(gold, item) for item in items):
            return True
        names, values = zip(*map(_without_name, items), strict=True)
        if brackets == "()" and None not in names:  # x = 1, y = 2 for (1, 2)
            return list(names) == sorted(set(names)) and _are_same(inside, list(values))
        if any(names):  # several values, and not the last of them
            return _is_same(_without_name(gold)[1], ", ".join(values))
    head, *about = split(given, ABOUT)
    value = split(head, EQUALS)[-1].strip()
    if about and not _names_something(value):
        return all(_is_about(part, value) for part in about) and (
            _is_same(gold, head) or _is_same(gold, about[-1])
        )
    gold_sides, given_sides = split(gold, _EQUALS_OR_ABOUT), split(given, _EQUALS_OR_ABOUT)
    if len(gold_sides) > 1 or len(given_sides) > 1:
        return _is_same_equation(gold_sides, given_sides)
    is_same_word = _words(gold) == _words(given)
    if _WORDS.fullmatch(gold) or (is_same_word and gold.isalpha() and len(gold) > 1):
        return is_same_word
    if brackets and brackets != r"\{\}" and (is_set if brackets_given else _SEVERAL.search(given)):
        return False  # "0 or 1" and "\pm 1" are neither pairs nor intervals
    if brackets and brackets == brackets_given:
        return (_is_permutation if is_set else _are_same)(inside, inside_given)
    return _is_same_whole(gold, given)


def _without_name(item: str) -> tuple[str | None, str]:
    """The name that an item gives its value, and the value."""
    name, *values = split(item, EQUALS)
    if values and NAME.fullmatch(name):
        return name.strip(), "=".join(values).strip()
    return None, item.strip()


def _is_about(text: str, value: str) -> bool:
    r"""True if the text is a number as near to the value as it says: `25\pi \approx 78.54`."""
    number, exact = literal(text.strip()), _number(value)
    return number is not None and exact is not None and _is_rounded(number, exact, min_digits=1)


def _number(text: str) -> Fraction | None:
    """The value of a number, written out or to be computed; with 30 digits where it has more."""
    if number := literal(text):
        return number.value
    expression = parse(text)
    value = expression.evalf(30) if getattr(expression, "is_number", False) else None
    return None if not getattr(value, "is_Float", False) else Fraction(Decimal(str(value)))


def _are_same(golds: list[str], items: list[str]) -> bool:
    return len(golds) == len(items) and all(map(_is_same, golds, items))


def _is_permutation(golds: list[str], items: list[str]) -> bool:
    """True if the texts are equivalent one to one, in any order."""
    left = list(items)
    for gold in golds:
        match = next((item for item in left if _is_same(gold, item)), None)
        if match is None or len(golds) != len(items):
            return False
        left.remove(match)
    return True


def _is_same_equation(golds: list[str], givens: list[str]) -> bool:
    """With the sides of `a = b = c`; a side that names something may be left out."""
    if _are_two_statements(givens):
        return False
    if len(golds) == 1:
        *others, last = givens
        return _is_same(golds[0], last) and all(
            _names_something(side) or _is_same_expression(golds[0], _UNIT.sub("", side))
            for side in others
        )
    if len(givens) == 1:
        if NAME.fullmatch(golds[0]):
            golds = golds[1:]
        elif any(map(_names_something, golds)):
            return _is_same_expression("=".join(golds), givens[0])
        return any(_is_same(gold, givens[0]) for gold in golds)
    if len(golds) == len(givens) == 2 and squeeze(golds[0]) == squeeze(givens[0]):
        return _is_same(golds[1], givens[1])
    # Without an unknown (0 = 0, 1 = 2) or another side (x = x), it is True or False, like others.
    if not any(map(_names_something, golds)) or len(set(map(squeeze, golds))) == 1:
        return all(
            any(_is_same(gold, side) for gold in golds)
            for side in givens
            if side is givens[-1] or not _names_something(side)
        )
    return _is_same_expression("=".join(golds), "=".join(givens))


def _are_two_statements(sides: list[str]) -> bool:
    r"""True if a side between others is a value and one more name: `x = 1 \lor y = 6`."""
    if len(sides) < 3:
        return False
    name, *middle = (side.strip() for side in sides[:-1])
    if len(middle) > 1 and all(map(_APART.fullmatch, middle)):
        return True
    again = re.compile(rf"[^A-Za-z\\]\s*{re.escape(name)}$")
    for side in middle:
        value, *derived = _ARROW.split(side)
        if NAME.fullmatch(name) and again.search(side) and (not derived or literal(value.strip())):
            return True
        if not derived and (end := _LAST_NAME.search(side)):
            before = side[: end.start()]
            first = _SEPARATOR_BEFORE.sub("", before).strip()
            if _WORD_BEFORE.search(before) or (
                not _is_one_value(side)
                and (len(bracketed_items(first)[1]) > 1 or _is_one_value(first))
            ):
                return True
    return False


def _is_one_value(text: str) -> bool:
    """A product, say, and no set, relation or text that cannot be parsed."""
    from sympy import Expr

    return isinstance(parse(TEXT.sub("t", text)), Expr)


def _names_something(side: str) -> bool:
    """True if the side of an equation is no computation: it has letters, or words alone."""
    bare = _OF_A_COMPUTATION.sub(" ", _UNIT.sub("", side))
    return re.search("[A-Za-z]", bare) is not None or NAME.fullmatch(side) is not None


def _words(text: str) -> str:
    text = re.sub(r"\\text|[^A-Za-z0-9:]", "", text)
    return text.casefold() if len(text) > 1 else text


def _is_same_whole(gold: str, given: str) -> bool:
    """As one expression; if all parts of the true answer are numbers, none is left to compute."""
    are_numbers = all(literal(part) or _SIGNED_INFINITY.fullmatch(part) for part in _parts(gold))
    if are_numbers and (
        _MATRIX_PRODUCT.search(given)
        or any(literal(part) is None and OPERATION.search(part) for part in _parts(given))
    ):
        return False
    return _is_same_expression(gold, given)


def _parts(text: str) -> list[str]:
    r"""The texts between brackets, commas and the like, with 1/2 for \frac{1}{2}."""
    parts = _STRUCTURE.split(PLAIN_FRACTION.sub(r"\1/\2", text))
    bare = (split(part, EQUALS)[-1].strip().removeprefix(r"\pm").strip() for part in parts)
    return [part for part in bare if part]


def _is_same_expression(gold: str, given: str) -> bool:
    """By math-verify; its time limits interrupt Python code only, and are off."""
    from math_verify import verify
    from sympy import Float, Integral, Limit, Product, Rational, Sum

    number = literal(given)
    if number and number.is_decimal and not literal(gold):
        exact = _number(gold)
        if exact is not None:
            return _is_rounded(number, exact, min_digits=6)
    expressions = [parse(text) for text in (gold, given)]
    if None in expressions:
        return False
    gold_value, value = (
        expression.xreplace({f: Rational(str(f)) for f in expression.atoms(Float)})
        for expression in expressions
    )
    # math-verify compares to a fixed number of decimals, so numbers are compared relatively first.
    if all(getattr(side, "is_number", False) for side in (gold_value, value)):
        off, size = abs((gold_value - value).evalf()), abs(gold_value.evalf())
        if off.is_Float and size.is_Float and off > 1e-9 * size:
            return False
    # A sum of infinitely many terms takes forever to this many digits.
    is_endless = any(side.has(Sum, Product, Integral, Limit) for side in (gold_value, value))
    digits = 15 if is_endless else _MAX_CHARS
    return verify(
        gold_value, value, timeout_seconds=None, raise_on_error=True, numeric_precision=digits
    )


# They take the parser's tables apart, one from another.
_FORMS = (
    *(r"\frac{x}{2}", r"2\sqrt[3]{5}\pi+1", "6-5i^2", r"(-\infty,-2)\cup[3,5)", r"3y^2 \le 4x_1"),
    *(r"\begin{pmatrix} 1 \\ x \end{pmatrix}", r"\{1,x\}", r"\log_2(x)!", r"e^{|x|}\sin(30)"),
)


def warm_up() -> None:
    """Do the imports and build the parser's tables, so that no comparison is charged for them."""
    for form in _FORMS:
        _is_same_expression(form, f"{form}+1")
