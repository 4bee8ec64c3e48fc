r"""From LaTeX to sympy expressions, with nothing left in sympy that compiles a text.

latex2sympy names a symbol by any text in `\dot{…}` or an index. sympy's `lambdify` runs names as
Python, and its `parse_expr` runs whole texts. So names are checked, and compilers replaced, here
and nowhere else. Grading workers import this module, so it imports sympy only when called.
"""

import re
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, NoReturn

from vineppo.tasks.answers import NO_UNIT, closing_braces

# Whose functions import modules when they are called, which a worker without files cannot.
_SYMPY_PACKAGES = (
    *("assumptions", "calculus", "combinatorics", "concrete", "core", "discrete", "functions"),
    *("integrals", "logic", "matrices", "ntheory", "physics.units", "polys", "series", "sets"),
    *("simplify", "solvers", "tensor", "vector"),
)
_NOT_NEEDED = re.compile(r"\.(?:tests|benchmarks|compatibility|trace)\b")
LIBRARIES = {"sympy", "mpmath", "latex2sympy2_extended", "math_verify"}
# They compile functions from numbers of arguments and kinds of numbers, with nothing of an answer.
OWN_SOURCE = {"sympy.polys.monomials", "mpmath.libmp.libhyper"}
# What may be a symbol's name, and what its index: nothing that calls, quotes or has attributes.
_SYMBOL = re.compile(r"\\[A-Za-z]+\s*\{[A-Za-z0-9 ]*\}(?:\\%)?")
_INDEX = re.compile(r"(?:[\w+\-*/^=,<>|:{}]|\.(?=[0-9])|\\[A-Za-z]+)*", re.ASCII)
_RATIONAL = re.compile(r"-?[0-9]+(?:/[0-9]+)?")
_FLOAT = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")

_NEIGHBOURS = re.compile(r"(?<!_)[0-9.] +[0-9.]")  # _2 3 is an index and a number
_DEGREES = re.compile(r"([0-9.]+|\\?[A-Za-z]+|\([^()]*\))\s*\^\\circ")
_ANGLE_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_COMMAND = re.compile(r"\\text\{[^{}]*\}|\\[A-Za-z]+")
# A unit without \text; behind other letters it stands apart.
_BARE_UNIT = re.compile(
    r"(?:(?<=\s)|(?=[kcm]m$|ft$|in$|kg$)|(?<=1)(?=st$)|(?<=[0-9])(?=(?:nd|rd|th)$))"
    r"[A-Za-z]{2,}(?: [A-Za-z]{2,})*$|(?<![A-Za-z])[mg]$"
)
_CLEAR_UNIT = re.compile(r"\s(?:[kcm]m|ft|kg|mph|[A-Za-z]{4,}(?: [A-Za-z]{2,})*)$")


def parse(text: str) -> Any:
    """The sympy expression of a whole normalized text, or None."""
    from latex2sympy2_extended import NormalizationConfig, normalize_latex
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig
    from math_verify.grader import should_treat_as_complex

    if _ANGLE_FUNCTION.search(text):  # elsewhere a degree is a unit
        text = _DEGREES.sub(r"(\\frac{\1 \\pi}{180})", text)
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
    prepare()
    converter = _converter()(None, is_real, config=ConversionConfig(lowercase_symbols=False))
    try:
        return converter.parse(latex)
    except (ImportError, OSError):  # a worker has no files: what it lacks must not pass for wrong
        raise
    except Exception:  # the parser's errors have no common type
        return None


def _may_have_unit(text: str) -> bool:
    r"""True if math-verify may take a unit off the end: its h is also the h of \pi r^2 h."""
    bare = _COMMAND.sub(".", text).rstrip()
    unit = _BARE_UNIT.search(bare)
    if not bare[-1:].isalpha() or _CLEAR_UNIT.search(bare):
        return True
    if unit is None or NO_UNIT.search(unit[0]):
        return False
    return re.search("[A-Za-z]", bare[: unit.start()]) is None


@cache
def _converter() -> Any:
    """latex2sympy's converter, which refuses names that are more than letters and digits."""
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
def prepare() -> None:
    """Import what sympy would import late, and replace whatever compiles a text there."""
    import math_verify  # noqa: F401

    for name in _SYMPY_PACKAGES:
        package = import_module(f"sympy.{name}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if not _NOT_NEEDED.search(module.name):
                with suppress(ImportError):  # of a package that is not installed
                    import_module(module.name)
    # A module's global name hides Python's built-in one.
    compilers = dict.fromkeys(("compile", "eval", "exec", "exec_", "lambdify"), refuse_source)
    for name, loaded in sys.modules.copy().items():
        if name.partition(".")[0] in LIBRARIES and name not in OWN_SOURCE:
            vars(loaded).update(compilers, parse_expr=read_number)


def refuse_source(*_: Any, **__: Any) -> NoReturn:
    """sympy then goes another way: a sum that it cannot compile is estimated."""
    raise NotImplementedError("no source may be compiled here")


def read_number(text: str, *_: Any, **__: Any) -> Any:
    """`parse_expr` for what latex2sympy and sympy themselves hand to it: "2", "3/2", "0.5"."""
    from sympy import Float, Rational

    if _RATIONAL.fullmatch(text):
        return Rational(text)
    if _FLOAT.fullmatch(text):
        return Float(text)
    raise SyntaxError(f"a number must stand there, got {text!r}")
