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
from decimal import Decimal
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, NoReturn

from vineppo.tasks.notation import (
    Literal,
    bracketed_items,
    closing_braces,
    list_items,
    literal,
    normalize,
    split,
    squeeze,
)

# No true answer of the published sets has 200 characters.
_MAX_CHARS = 1000
_PLAIN_NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)")
# "4!=24" is a factorial, "x!=3" is not.
_EQUALS = re.compile(r"(?<![<>:])(?<!(?<![0-9])!)=|\\approx(?![A-Za-z])")
_SIMPLE_NAME = re.compile(r"\s*[A-Za-z]+(?:_\w|_\{\w+\})?'?(?:\([A-Za-z]\))?\s*")
# Commands that a computation is made of; \theta, \angle and the like name something.
_OF_A_COMPUTATION = re.compile(
    r"\\(?:frac|sqrt|cdot|times|div|binom|pi|infty|pm|circ|log|ln|sin|cos|tan|text\{[^{}]*\})"
)
_STRUCTURE = re.compile(r"[()\[\],&{}]|\\[{}\\]|\\(?:begin|end)\{[a-z]*matrix\}|\\cup(?![A-Za-z])")
_PLAIN_FRACTION = re.compile(r"\\frac\{\s*(-?[0-9.]+)\s*\}\{\s*([0-9.]+)\s*\}")
_SIGNED_INFINITY = re.compile(r"[-+]?\\infty")
# Texts that are no product of letters: words, names in capitals, choices, times of the day.
_WORDS = re.compile(r"\(?[A-Z]\)?|[A-Z]{2,}|[A-Za-z]{4,}(?:[ -][A-Za-z0-9]+)*|[0-9]+:[0-9]{2}.*")
_NEIGHBOURS = re.compile(r"[0-9.] +[0-9.]")
_OPERATION = re.compile(
    r"[+*/^!=]|[\w)}]\s*-|\\(?:frac|sqrt|cdot|times|div|binom|sum|prod|int|lim|log|ln|sin|cos|tan)"
)
# What is added or multiplied to no effect, but in 0.5, 10, 0x, 1^2 or 0!.
_IDLE = re.compile(
    r"""(?<=[\w)}\].])\s*[-+]\s*0(?![\w.!^(\\*/])
      | ^0\s*\+
      | (?<![\w.^/])1\s*(?:\\(?:cdot|times)(?![A-Za-z])|[*×])
      | ^1\s*(?=\()
      | (?:(?:\\cdot|\\times|[*×/])\s*1|\^1|\^\{1\})$""",
    re.VERBOSE,
)

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
_NAME = re.compile(r"\\[A-Za-z]+\s*\{[A-Za-z0-9 ]*\}(?:\\%)?")
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
    """Whether an answer is an expression of the question: nothing was worked out.

    Nor was it in `y = (x+1)^2`, `((x+1)^2)` or `(x+1)^2 + 0`; a side that is new was worked out.

    A number, `x = 4`, or a word of the question may well be its answer, and so may what is the true
    answer to the letter. `is_copied("Expand $(x+1)^2$.", "x^2+2x+1", "(x + 1)^2")` holds.
    """
    text = normalize(extracted)
    if not _OPERATION.search(text):
        return False
    *names, last = split(text, _EQUALS)
    if literal(last.strip()) and all(map(_SIMPLE_NAME.fullmatch, names)):
        return False
    gold, asked = normalize(answer), squeeze(normalize(question))
    if squeeze(text) == squeeze(gold):
        return False
    gold_sides = [_without_idle_marks(side) for side in split(gold, _EQUALS)]
    own = {squeeze(_without_idle_marks(gold)), *map(squeeze, gold_sides)}

    def stands_there(part: str) -> bool:
        if not _OPERATION.search(part) or literal(part):
            return False
        return squeeze(part) not in own and squeeze(part) in asked

    bare = _without_idle_marks(text)
    if squeeze(text) in asked or stands_there(bare):
        return True
    if len(gold_sides) > 1:  # the sides are compared with those of the true answer
        return False
    sides = [_without_idle_marks(side) for side in split(bare, _EQUALS)]
    worked = [side for side in sides if not _SIMPLE_NAME.fullmatch(side)]
    return worked != [] and all(map(stands_there, worked))


def _without_idle_marks(text: str) -> str:
    r"""The text without what leaves its value: outer brackets, + 0, times 1 and the like.

    `_without_idle_marks(r"1\cdot((x+1)+0)") == "x+1"`.
    """
    for _ in range(8):  # deeper brackets are no answer, and cost time
        bare = text
        text = _IDLE.sub("", text.strip()).rstrip(".,:? ")
        inside = bracketed_items(text)
        if inside is not None and len(inside[1]) == 1:
            text = inside[1][0].strip()
        if text == bare:
            break
    return text


def _compare_notations(gold: str, given: str) -> bool | None:
    """`compare_at_once` for normalized texts."""
    if squeeze(gold) == squeeze(given):
        return gold != ""
    number = literal(gold)
    return None if number is None else _is_number(number, given)


def _is_number(number: Literal, given: str) -> bool | None:
    """Whether `given` is the number, in one form or several; None: `computation = number`."""
    *sides, last = split(given, _EQUALS)
    texts = [last] if literal(last.strip()) else list_items(last)
    forms = [literal(text.strip()) for text in texts]
    if not all(form is not None and _is_same_number(number, form) for form in forms):
        return False
    return True if all(map(_names_something, sides)) else None


def _is_same_number(gold: Literal, given: Literal) -> bool:
    """Exactly the same, or to six decimals where one is a decimal and one is not.

    20/4 is still to be computed where the true answer is 5. And 50 % is 50 as well as 1/2, where
    the true answer leaves it open.
    """
    if given.is_fraction and given.value.denominator == 1 and not gold.is_fraction:
        return False
    if gold.base and given.base and gold.base != given.base:
        return False
    values = {given.value}
    if given.is_percent and not gold.is_percent:
        values = {given.value / 100, *([given.value] if abs(gold.value) >= 1 else [])}
    elif gold.is_percent and not given.is_percent:
        values = {given.value * 100, given.value}
    if gold.is_decimal != given.is_decimal:
        return round(gold.value, 6) in {round(value, 6) for value in values}
    return gold.value in values


def _is_same(gold: str, given: str) -> bool:
    """`is_equivalent` for normalized texts."""
    gold, given = gold.strip(), given.strip()
    at_once = _compare_notations(gold, given)
    if at_once is not None:
        return at_once
    golds = list_items(gold)
    if len(golds) > 1:
        inside = bracketed_items(given)
        items = inside[1] if inside and inside[0] == r"\{\}" else list_items(given)
        if _is_permutation(golds, items):
            return True
        if inside and inside[0] != r"\{\}":  # one pair or interval
            return False
        return _has_as_plain_parts(gold, given) and _is_same_expression(gold, given)
    items = list_items(given)
    if len(items) > 1 and all(_is_same(gold, item) for item in items):
        return True
    gold_sides, given_sides = split(gold, _EQUALS), split(given, _EQUALS)
    if len(gold_sides) > 1 or len(given_sides) > 1:
        return _is_same_equation(gold_sides, given_sides)
    if _WORDS.fullmatch(gold):
        return _words(gold) == _words(given)
    inside, inside_given = bracketed_items(gold), bracketed_items(given)
    if inside and inside[0] != r"\{\}" and _is_unordered(given, inside_given):
        return False  # "0 or 1" and "\pm 1" are neither pairs nor intervals
    if inside and inside_given and inside[0] == inside_given[0]:
        if inside[0] == r"\{\}":
            return _is_permutation(inside[1], inside_given[1])
        return len(inside[1]) == len(inside_given[1]) and all(
            map(_is_same, inside[1], inside_given[1])
        )
    return _has_as_plain_parts(gold, given) and _is_same_expression(gold, given)


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
    if len(golds) == 1:
        *others, last = givens
        return _is_same(golds[0], last) and all(
            _names_something(side) or _is_same_expression(golds[0], side) for side in others
        )
    if len(givens) == 1:
        if _SIMPLE_NAME.fullmatch(golds[0]):
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
        return _SIMPLE_NAME.fullmatch(golds[0]) is not None and _is_same_equation(golds[1:], givens)
    return _is_same_expression("=".join(golds), "=".join(givens))


def _says_nothing(sides: list[str]) -> bool:
    """Whether the equation has no unknown (`0 = 0`, `1 = 2`) or one side alone (`x = x`).

    As a truth value it would be the same as every other.
    """
    return not any(map(_names_something, sides)) or len(set(map(squeeze, sides))) == 1


def _names_something(side: str) -> bool:
    """Whether the side of an equation is no computation: it has letters, or symbols like them."""
    return re.search("[A-Za-z]", _OF_A_COMPUTATION.sub(" ", side)) is not None


def _words(text: str) -> str:
    text = re.sub(r"\\text|[^A-Za-z0-9:]", "", text)
    return text.casefold() if len(text) > 1 else text


def _has_as_plain_parts(gold: str, given: str) -> bool:
    """False where the parts of the true answer are numbers and the other has one to compute."""
    golds, givens = _parts(gold), _parts(given)
    if not all(literal(part) or _SIGNED_INFINITY.fullmatch(part) for part in golds):
        return True
    return all(literal(part) or not _OPERATION.search(part) for part in givens)


def _parts(text: str) -> list[str]:
    r"""The texts between brackets, commas and the like, with 1/2 for \frac{1}{2}."""
    parts = _STRUCTURE.split(_PLAIN_FRACTION.sub(r"\1/\2", text))
    bare = (split(part, _EQUALS)[-1].strip().removeprefix(r"\pm").strip() for part in parts)
    return [part for part in bare if part]


def _is_same_expression(gold: str, given: str) -> bool:
    """By math-verify; its own time limits interrupt Python code only, and are off."""
    from math_verify import verify

    expressions = _parse(gold), _parse(given)
    if None in expressions:
        return False
    return verify(*expressions, timeout_seconds=None, raise_on_error=True)


def _parse(text: str) -> Any:
    """The sympy expression of a whole text, or None."""
    from latex2sympy2_extended import NormalizationConfig, normalize_latex
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig
    from math_verify.grader import should_treat_as_complex

    if _NEIGHBOURS.search(text):  # latex2sympy adds "3 4" up
        return None
    config = NormalizationConfig(
        basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="none"
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
                    _check(_NAME, token.text)
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
