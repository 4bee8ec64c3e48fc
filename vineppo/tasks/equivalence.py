"""Whether two answers are the same mathematics.

Both texts are brought to one notation first. Where the true answer is a number, the other must be
one too: what still has to be computed is no answer. All else is compared part by part, and what
has no parts by math-verify as one expression: what cannot be parsed is wrong, not searched for a
number.

Grading workers import this module, so it imports nothing heavy, and math-verify only when called.
"""

import re
import sys
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, NoReturn

from vineppo.tasks.notation import (
    NO_UNIT,
    TEXT,
    Literal,
    bracketed_items,
    closing_braces,
    list_items,
    literal,
    normalize,
    split,
    squeeze,
)

# What a float's rounding may add up to.
_FLOAT_ERROR = Fraction(1, 10**14)
# No true answer of the published sets has 200 characters.
_MAX_CHARS = 1000
_PLAIN_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)")
# "4!=24" is a factorial, "x!=3" is not.
_EQUALS = re.compile(r"(?<![<>:])(?<!(?<![0-9])!)=")
_ABOUT = re.compile(r"\\(?:approx(?:eq)?|simeq|doteq)(?![A-Za-z])|[≈≃]")
_EQUALS_OR_ABOUT = re.compile(rf"{_EQUALS.pattern}|{_ABOUT.pattern}")
_SEPARATOR = re.compile(r",(?![0-9]{3}(?![0-9]))|(?<![0-9]),")  # no comma of 1,234
_NAME = re.compile(r"\s*(?:[A-Za-z]+|\\text\{[^{}0-9]*\})(?:_\w|_\{\w+\})?'?(?:\([A-Za-z]\))?\s*")
# A name or a pair of names at the end of a side, unless an operation joins it.
_LAST_NAME = re.compile(
    r"(?<=[^\s\-+*/^_(\[{'])(?<!\\cdot)(?<!\\times)(?<!\\div)\s*"
    rf"(?<![A-Za-z\\])(?:{_NAME.pattern}|\((?:[a-z],\s*)+[a-z]\))$"
)
_APART = re.compile(rf"-?[0-9.]+\s+{_NAME.pattern}")
_WORD_BEFORE = re.compile(
    r"(?:\\text\{[^{}]*\}|(?<=\s)[A-Za-z]{2,}|[0-9]\s*[:;.]|\\[lcv]?dots)\s*$"
)
_SEPARATOR_BEFORE = re.compile(r"(?:\\[A-Za-z]+|\\?[^\w\s)}\]'!])\s*$")
_ARROW = re.compile(r"\\(?:[A-Za-z]*arrow|implies|iff|to)(?![A-Za-z])|[→⇒⟹]")
# Commands that a computation is made of; \theta, \angle and the like name something.
_OF_A_COMPUTATION = re.compile(
    r"\\(?:frac|sqrt|cdot|times|div|binom|pi|infty|pm|circ|log|ln|sin|cos|tan)"
)
_UNIT = re.compile(r"(?<=[^\s\-+*/({])(?<!\\cdot)(?<!\\times)\s*\\text\{[^{}]*\}")
_STRUCTURE = re.compile(r"[()\[\],&{}]|\\[{}\\]|\\(?:begin|end)\{[a-z]*matrix\}|\\cup(?![A-Za-z])")
_PLAIN_FRACTION = re.compile(r"\\frac\{\s*(-?[0-9.]+)\s*\}\{\s*([0-9.]+)\s*\}")
_SIGNED_INFINITY = re.compile(r"[-+]?\\infty")
# Texts that are no product of letters: words, names in capitals, choices, times of the day.
_WORDS = re.compile(r"\(?[A-Z]\)?|[A-Z]{2,}|[A-Za-z]{4,}(?:[ -][A-Za-z0-9]+)*|[0-9]+:[0-9]{2}.*")
_NEIGHBOURS = re.compile(r"(?<!_)[0-9.] +[0-9.]")  # _2 3 is an index and a number
_OPERATION = re.compile(
    r"[+*/^!=]|[\w)}]\s*-|\\(?:frac|sqrt|cdot|times|div|binom|sum|prod|int|lim|log|ln|sin|cos|tan)"
    r"|[\w)}]\s*\\begin\{|\\begin\{vmatrix"
)
_MATRIX_PRODUCT = re.compile(r"\\end\{\w+\}\s*\\begin")
_MARKS = re.compile(r"\$+|\\[()\[\]]")  # around a formula
_RELATION = re.compile(r"[,=<>]|\\(?:[lg]eq?|neq?|approx|in)(?![A-Za-z])|\\\\(?!.*\\end)")
_NOT_COMPARED = re.compile(r"[\s(){}\[\]*×]|\\(?:cdot|times|text)(?![A-Za-z])|[pb](?=matrix)")
_DEGREES = re.compile(r"([0-9.]+|\\?[A-Za-z]+|\([^()]*\))\s*\^\\circ")
_COMMAND = re.compile(r"\\text\{[^{}]*\}|\\[A-Za-z]+")
# A unit without \text; behind other letters it stands apart.
_BARE_UNIT = re.compile(
    r"(?:(?<=\s)|(?=[kcm]m$|ft$|in$|kg$)|(?<=1)(?=st$)|(?<=[0-9])(?=(?:nd|rd|th)$))"
    r"[A-Za-z]{2,}(?: [A-Za-z]{2,})*$|(?<![A-Za-z])[mg]$"
)
_CLEAR_UNIT = re.compile(r"\s(?:[kcm]m|ft|kg|mph|[A-Za-z]{4,}(?: [A-Za-z]{2,})*)$")
_ANGLE_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")

# Several answers, once "or" is a comma; a matrix and a union have commas as well.
_SEVERAL = re.compile(r"^[^()\[\]{}]*,|^\s*\\pm(?![A-Za-z])")
_RATIONAL = re.compile(r"-?[0-9]+(?:/[0-9]+)?")
_FLOAT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
# Whose functions import modules when they are called, which a worker without files cannot.
_SYMPY_PACKAGES = (
    *("assumptions", "calculus", "combinatorics", "concrete", "core", "discrete", "functions"),
    *("integrals", "logic", "matrices", "ntheory", "physics.units", "polys", "series", "sets"),
    *("simplify", "solvers", "tensor", "vector"),
)
_NOT_NEEDED = re.compile(r"\.(?:tests|benchmarks|compatibility|trace)\b")
# What may be a symbol's name, and what its index: nothing that calls, quotes or has attributes.
_SYMBOL = re.compile(r"\\[A-Za-z]+\s*\{[A-Za-z0-9 ]*\}(?:\\%)?")
_INDEX = re.compile(r"(?:[\w+\-*/^=,<>|:{}]|\.(?=[0-9])|\\[A-Za-z]+)*", re.ASCII)
_LIBRARIES = {"sympy", "mpmath", "latex2sympy2_extended", "math_verify"}
# They compile functions from numbers of arguments and kinds of numbers, with nothing of an answer.
_OWN_SOURCE = {"sympy.polys.monomials", "mpmath.libmp.libhyper"}


def compare_at_once(answer: str, extracted: str) -> bool | None:
    """The comparison where it is free and certain: the same text, or a number as true answer.

    None where it takes algebra. `compare_at_once("18", "18.00") is True`,
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
    r"""Whether `extracted` is the same mathematics as the true `answer`.

    A number is matched by a number alone: "24" by "24.0" and "x = 24", not by "4!". A list
    ("69, 84") is matched by its items in any order, each once, or by what math-verify takes for the
    same set. Not symmetric: the form of the true answer decides what is compared. May take forever
    and may raise: it is meant for a process with a hard limit.

    `is_equivalent(r"\frac{1}{2}", "0.5")`, `is_equivalent("C", r"\text{(C)}")` and
    `is_equivalent("69, 84", "84,69.0")` hold.
    """
    at_once = compare_at_once(answer, extracted)
    if at_once is not None:
        return at_once
    return _is_same(normalize(answer), normalize(extracted))


def is_copied(question: str, answer: str, extracted: str) -> bool:
    """Whether an answer holds a formula of the question: nothing was worked out.

    A formula has an operation and does not stand in the true answer. The last side of an equation
    decides, or every one where the true answer is an equation.
    `is_copied("Expand $(x+1)^2$.", "x^2+2x+1", "y = 2(x + 1)^2 - (x+1)^2")` holds.
    """
    gold, text = normalize(answer), normalize(extracted)
    *names, last = split(text, _EQUALS)
    if _is_worked_out(last) and all(map(_NAME.fullmatch, names)):
        return False
    first = 0 if len(split(gold, _EQUALS)) > 1 else -1
    sides = [
        side
        for item in list_items(text)
        for part in split(item, _ABOUT)
        for side in split(part, _EQUALS)[first:]
        if not _is_worked_out(side)
    ]
    own, formulas = _bare(gold), _formulas(question)
    own_text, asked = squeeze(gold), squeeze(normalize(question))

    def is_held(part: str) -> bool:
        if _OPERATION.search(part) and squeeze(part) in asked and squeeze(part) not in own_text:
            return True
        bare, num_sides = _bare(part), len(split(part, _EQUALS))
        # An equation holds one of the question with marks before it, not as the end of a chain.
        return any(
            formula not in own
            and num_sides == num_asked
            and (bare.endswith(formula) if num_sides > 1 else formula in bare)
            for formula, num_asked in formulas
        )

    return any(map(is_held, [text, *sides]))


def _is_worked_out(side: str) -> bool:
    """Whether the text is a number, and no fraction that may be reduced."""
    number = literal(side.strip())
    if number is None or not number.is_fraction:
        return number is not None
    return re.findall("[0-9]+", side) == [str(abs(x)) for x in number.value.as_integer_ratio()]


@lru_cache(maxsize=256)
def _formulas(question: str) -> frozenset[tuple[str, int]]:
    """What has an operation in the question: formulas and the sides of their relations.

    Each with its number of sides, an equation's 2.
    """
    formulas = [normalize(formula) for formula in _MARKS.split(question)[1::2]]
    parts = [
        part.strip(" &").rstrip("+-")
        for whole in formulas
        for part in [whole, *split(whole, _RELATION)]
    ]
    return frozenset(
        (_bare(part), len(split(part, _EQUALS)))
        for part in parts
        if _OPERATION.search(part) and literal(part) is None
    )


def _bare(text: str) -> str:
    """The text without brackets and multiplication signs, to be searched for another."""
    return _NOT_COMPARED.sub("", squeeze(text))


def _compare_notations(gold: str, given: str) -> bool | None:
    """`compare_at_once` for normalized texts."""
    if squeeze(gold) == squeeze(given):
        return gold != ""
    number = literal(gold)
    return None if number is None else _is_number(number, given)


def _is_number(number: Literal, given: str) -> bool | None:
    """Whether `given` is the number, in one form or several; None: `computation = number`."""
    items = split(given, _SEPARATOR)
    if len(items) > 1:
        return all(_is_number(number, item.strip()) for item in items)
    head, *about = split(given, _ABOUT)
    if about and not _names_something(split(head, _EQUALS)[-1]):
        last = literal(about[-1].strip())
        if last is None:
            return False
        return None if _is_same_number(number, last) or _is_number(number, head) else False
    *sides, last_side = split(given, _EQUALS_OR_ABOUT)
    if len(sides) == 1 and _NAME.fullmatch(last_side):  # 4 = x
        sides, last_side = [last_side], sides[0]
    form = literal(last_side.strip())
    if form is None or not _is_same_number(number, form):
        return False
    return True if len(sides) < 2 and all(map(_names_something, sides)) else None


def _is_same_number(gold: Literal, given: Literal) -> bool:
    """Exactly the same, or as near as a decimal of six digits and another number can be.

    20/4 is still to be computed where the true answer is 5. And 50 % is 50 as well as 1/2, where
    the true answer leaves it open.
    """
    if given.is_fraction and given.value.denominator == 1 and not gold.is_fraction:
        return False
    if gold.base and given.base and gold.base != given.base:
        return False
    factors = [Fraction(1)]
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
    """Whether a decimal of so many digits is a number rounded or cut off.

    A float's error is allowed, and nothing else where the number is an integer.
    """
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
    inside, inside_given = bracketed_items(gold), bracketed_items(given)
    if len(golds) > 1:
        if inside_given and inside_given[0] == r"\{\}":
            items = inside_given[1]
        if _is_permutation(golds, items):
            return True
        if inside_given and inside_given[0] != r"\{\}":  # one pair or interval
            return False
        return _has_as_plain_parts(gold, given) and _is_same_expression(gold, given)
    if (
        inside_given
        and inside_given[0] == r"\{\}"
        and all(_EQUALS.search(i) for i in inside_given[1])
    ):
        items = inside_given[1]
    if len(items) > 1:
        if all(_is_same(gold, item) for item in items):
            return True
        names, values = zip(*map(_without_name, items), strict=True)
        if inside and inside[0] == "()" and None not in names:  # x = 1, y = 2 for (1, 2)
            return list(names) == sorted(set(names)) and _are_same(inside[1], list(values))
        if any(names):  # several values, and not the last of them
            return _is_same(_without_name(gold)[1], ", ".join(values))
    head, *about = split(given, _ABOUT)
    value = split(head, _EQUALS)[-1].strip()
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
    if inside and inside[0] != r"\{\}" and _is_unordered(given, inside_given):
        return False  # "0 or 1" and "\pm 1" are neither pairs nor intervals
    if inside and inside_given and inside[0] == inside_given[0]:
        compare = _is_permutation if inside[0] == r"\{\}" else _are_same
        return compare(inside[1], inside_given[1])
    return _has_as_plain_parts(gold, given) and _is_same_expression(gold, given)


def _without_name(item: str) -> tuple[str | None, str]:
    """The name that an item gives its value, and the value."""
    name, *values = split(item, _EQUALS)
    if values and _NAME.fullmatch(name):
        return name.strip(), "=".join(values).strip()
    return None, item.strip()


def _is_about(text: str, value: str) -> bool:
    r"""Whether the text is a number as near to the value as it says: `25\pi \approx 78.54`."""
    number, exact = literal(text.strip()), _number(value)
    return number is not None and exact is not None and _is_rounded(number, exact, min_digits=1)


def _number(text: str) -> Fraction | None:
    """The value of a number, written out or to be computed; with 30 digits where it has more."""
    if number := literal(text):
        return number.value
    expression = _parse(_in_radians(text))
    value = expression.evalf(30) if getattr(expression, "is_number", False) else None
    return None if not getattr(value, "is_Float", False) else Fraction(Decimal(str(value)))


def _are_same(golds: list[str], items: list[str]) -> bool:
    return len(golds) == len(items) and all(map(_is_same, golds, items))


def _is_unordered(given: str, inside: tuple[str, list[str]] | None) -> bool:
    """Whether a text states several answers, in no order: a list, a set, or plus-minus."""
    return inside[0] == r"\{\}" if inside else _SEVERAL.search(given) is not None


def _is_permutation(golds: list[str], items: list[str]) -> bool:
    """Whether the texts are equivalent one to one, in any order."""
    if len(golds) != len(items):
        return False
    left = list(items)
    for gold in golds:
        match = next((item for item in left if _is_same(gold, item)), None)
        if match is None:
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
        if _NAME.fullmatch(golds[0]):
            golds = golds[1:]
        elif any(map(_names_something, golds)):
            return _is_same_expression("=".join(golds), givens[0])
        return any(_is_same(gold, givens[0]) for gold in golds)
    if len(golds) == len(givens) == 2 and squeeze(golds[0]) == squeeze(givens[0]):
        return _is_same(golds[1], givens[1])
    if _says_nothing(golds):
        return all(
            any(_is_same(gold, side) for gold in golds)
            for side in givens
            if side is givens[-1] or not _names_something(side)
        )
    if _says_nothing(givens):  # 4! = 24 is x = 24
        return _NAME.fullmatch(golds[0]) is not None and _is_same_equation(golds[1:], givens)
    return _is_same_expression("=".join(golds), "=".join(givens))


def _are_two_statements(sides: list[str]) -> bool:
    r"""Whether a side between others is a value and one more name: `x = 1 \lor y = 6`."""
    if len(sides) < 3:
        return False
    name, *middle = (side.strip() for side in sides[:-1])
    if len(middle) > 1 and all(map(_APART.fullmatch, middle)):
        return True
    again = re.compile(rf"[^A-Za-z\\]\s*{re.escape(name)}$")
    for side in middle:
        value, *derived = _ARROW.split(side)
        if _NAME.fullmatch(name) and again.search(side) and (not derived or literal(value.strip())):
            return True
        if not derived and (end := _LAST_NAME.search(side)):
            before = side[: end.start()]
            if _WORD_BEFORE.search(before) or (
                not _is_one_value(side) and _is_value(_SEPARATOR_BEFORE.sub("", before).strip())
            ):
                return True
    return False


def _is_value(text: str) -> bool:
    inside = bracketed_items(text)
    return (inside is not None and len(inside[1]) > 1) or _is_one_value(text)


def _is_one_value(text: str) -> bool:
    """A product, say, and no set, relation or text that cannot be parsed."""
    from sympy import Expr

    return isinstance(_parse(_in_radians(TEXT.sub("t", text))), Expr)


def _says_nothing(sides: list[str]) -> bool:
    """Whether the equation has no unknown (`0 = 0`, `1 = 2`) or one side alone (`x = x`).

    As a truth value it would be the same as every other.
    """
    return not any(map(_names_something, sides)) or len(set(map(squeeze, sides))) == 1


def _names_something(side: str) -> bool:
    """Whether the side of an equation is no computation: it has letters, or words alone."""
    bare = _OF_A_COMPUTATION.sub(" ", _UNIT.sub("", side))
    return re.search("[A-Za-z]", bare) is not None or _NAME.fullmatch(side) is not None


def _words(text: str) -> str:
    text = re.sub(r"\\text|[^A-Za-z0-9:]", "", text)
    return text.casefold() if len(text) > 1 else text


def _has_as_plain_parts(gold: str, given: str) -> bool:
    """False where the parts of the true answer are numbers and the other has one to compute."""
    golds, givens = _parts(gold), _parts(given)
    if not all(literal(part) or _SIGNED_INFINITY.fullmatch(part) for part in golds):
        return True
    if _MATRIX_PRODUCT.search(given):
        return False
    return all(literal(part) or not _OPERATION.search(part) for part in givens)


def _parts(text: str) -> list[str]:
    r"""The texts between brackets, commas and the like, with 1/2 for \frac{1}{2}."""
    parts = _STRUCTURE.split(_PLAIN_FRACTION.sub(r"\1/\2", text))
    bare = (split(part, _EQUALS)[-1].strip().removeprefix(r"\pm").strip() for part in parts)
    return [part for part in bare if part]


def _is_same_expression(gold: str, given: str) -> bool:
    """By math-verify; its own time limits interrupt Python code only, and are off.

    It takes numbers for equal that agree to so many decimals. So they are compared relatively
    first, and then to more decimals than an answer has.
    """
    from math_verify import verify
    from sympy import Float, Integral, Limit, Product, Rational, Sum

    number = literal(given)
    if number and number.is_decimal and not literal(gold):
        exact = _number(gold)
        if exact is not None:
            return _is_rounded(number, exact, min_digits=6)
    expressions = [_parse(_in_radians(text)) for text in (gold, given)]
    if None in expressions:
        return False
    gold_value, value = (
        expression.xreplace({f: Rational(str(f)) for f in expression.atoms(Float)})
        for expression in expressions
    )
    if all(getattr(side, "is_number", False) for side in (gold_value, value)):
        off, size = abs((gold_value - value).evalf()), abs(gold_value.evalf())
        if off.is_Float and size.is_Float and off > 1e-9 * size:
            return False
    # A sum of infinitely many terms takes forever to so many digits.
    is_endless = any(side.has(Sum, Product, Integral, Limit) for side in (gold_value, value))
    digits = 15 if is_endless else _MAX_CHARS
    return verify(
        gold_value, value, timeout_seconds=None, raise_on_error=True, numeric_precision=digits
    )


def _in_radians(text: str) -> str:
    r"""The text with \sin 30^\circ as the sine of 30 pi/180; elsewhere degrees are a unit."""
    if not _ANGLE_FUNCTION.search(text):
        return text
    return _DEGREES.sub(r"(\\frac{\1 \\pi}{180})", text)


def _parse(text: str) -> Any:
    """The sympy expression of a whole text, or None."""
    from latex2sympy2_extended import NormalizationConfig, normalize_latex
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig
    from math_verify.grader import should_treat_as_complex

    if _NEIGHBOURS.search(text):  # latex2sympy adds "3 4" up
        return None
    config = NormalizationConfig(
        basic_latex=True,
        units=_may_have_unit(text),
        malformed_operators=True,
        nits=True,
        boxed="none",
    )
    latex = normalize_latex(text, config)
    is_real = not should_treat_as_complex(latex)
    _prepare_sympy()
    converter = _converter()(None, is_real, config=ConversionConfig(lowercase_symbols=False))
    try:
        return converter.parse(latex)
    except (ImportError, OSError):  # a worker has no files: what it lacks must not pass for wrong
        raise
    except Exception:  # the parser's errors have no common type
        return None


def _may_have_unit(text: str) -> bool:
    r"""Whether math-verify may take a unit off the end: its h is also the h of \pi r^2 h."""
    bare = _COMMAND.sub(".", text).rstrip()
    unit = _BARE_UNIT.search(bare)
    if not bare[-1:].isalpha() or _CLEAR_UNIT.search(bare):
        return True
    if unit is None or NO_UNIT.search(unit[0]):
        return False
    return re.search("[A-Za-z]", bare[: unit.start()]) is None


@cache
def _converter() -> Any:
    r"""latex2sympy's converter, which would name a symbol by any text in `\dot{…}` or an index."""
    from latex2sympy2_extended.latex2sympy2 import PSLexer, _Latex2Sympy

    class Converter(_Latex2Sympy):
        # It parses a function's arguments once more, without their blanks: each text is looked at.
        def create_parser(self, latex: str) -> Any:
            parser = super().create_parser(latex)
            stream = parser.getTokenStream()
            stream.fill()
            for token in stream.tokens:
                if token.type in (PSLexer.ACCENT, PSLexer.VARIABLE):
                    _check(_SYMBOL, token.text)
            text = "".join(token.text for token in stream.tokens)
            for opening, closing in closing_braces(text).items():
                if text[opening - 1 : opening] == "_":
                    _check(_INDEX, text[opening + 1 : closing])
            return parser

    return Converter


def _check(names: re.Pattern[str], text: str) -> None:
    if not names.fullmatch(text):
        raise ValueError(f"a symbol's name must have letters and digits alone, got {text!r}")


@cache
def _prepare_sympy() -> None:
    """Import what sympy would import late, and leave nothing there that compiles a text.

    Its `lambdify` runs symbols' names as Python, and its `parse_expr` whole texts.
    """
    import math_verify  # noqa: F401

    for name in _SYMPY_PACKAGES:
        package = import_module(f"sympy.{name}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not _NOT_NEEDED.search(module.name):
                with suppress(ImportError):  # of a package that is not installed
                    import_module(module.name)
    # A module's own name hides Python's built-in one.
    replaced = {
        **dict.fromkeys(("compile", "eval", "exec", "exec_", "lambdify"), _refuse_source),
        "parse_expr": _read_number,
    }
    for name, loaded in sys.modules.copy().items():
        if name.partition(".")[0] in _LIBRARIES and name not in _OWN_SOURCE:
            vars(loaded).update(replaced)


def _refuse_source(*_: Any, **__: Any) -> NoReturn:
    """sympy then goes another way: a sum that it cannot compile is estimated."""
    raise NotImplementedError("no source may be compiled here")


def _read_number(text: str, *_: Any, **__: Any) -> Any:
    """`parse_expr` for what latex2sympy and sympy themselves hand to it: "2", "3/2", "0.5"."""
    from sympy import Float, Rational

    if _RATIONAL.fullmatch(text):
        return Rational(text)
    if _FLOAT.fullmatch(text):
        return Float(text)
    raise SyntaxError(f"a number must stand there, got {text!r}")


# Of the forms that the parser's tables differ for.
_FORMS = (
    *(r"\frac{x}{2}", r"2\sqrt[3]{5}\pi+1", "6-5i^2", r"(-\infty,-2)\cup[3,5)", r"3y^2 \le 4x_1"),
    *(r"\begin{pmatrix} 1 \\ x \end{pmatrix}", r"\{1,x\}", r"\log_2(x)!", r"e^{|x|}\sin(30)"),
)


def warm_up() -> None:
    """Do the imports and build the parser's tables, so that no comparison is charged for them."""
    for form in _FORMS:
        _is_same_expression(form, f"{form}+1")
