"""The formulas of a text and the places where a long one may be cut, in one pass each."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

# Alternatives of patterns: environments that a cut sees through, and others.
_ALIGNED = "align(?:at|ed|edat)?|eqnarray|equation|flalign|gather(?:ed)?|multline|split"
_FORMULA = rf"{_ALIGNED}|array|asy|cases|tabular|tikzpicture|(?:[bBpvV]|small)?matrix"
_OPENING_OF = {r"\]": r"\[", r"\)": r"\(", "[/asy]": "[asy]"}
_DELIMITER = re.compile(
    rf"\\begin\{{(?P<begin>{_FORMULA})\*?\}}|\\end\{{(?P<end>{_FORMULA})\*?\}}"
    r"|(?P<opening>\\[\[(]|\[asy\])"
    r"|(?P<closing>\\[\])]|\[/asy\])"
    r"|\\[\s\S]"  # an escaped character opens nothing: \$, and the \\ of a line end
    r"|(?P<dollars>\$\$?)"
)
_NO_ALIGNMENT = rf"\{{(?!(?:{_ALIGNED})\*?\}})[A-Za-z]{{1,20}}\*?\}}"
_FORMULA_PART = re.compile(
    rf"(?P<opening>\\begin{_NO_ALIGNMENT}|\\left(?![A-Za-z])|[{{(\[])"
    rf"|(?P<closing>\\end{_NO_ALIGNMENT}|\\right(?![A-Za-z])|[}})\]])"
    r"|(?P<line_end>\\\\(?:\[[^\[\]\n]{0,12}\])?[ \t]*+\n?)"
    r"|(?P<relation>(?:\\not)?:?[=<>]+"
    r"|\\(?:[lg]eq?|[lg]eqslant|neq?|equiv|approx|sim|cong|implies|iff"
    r"|(?:Long)?(?:[Rr]ight|[Ll]eftright)arrow|Leftarrow)(?![A-Za-z]))"
    r"|\\[\s\S]"
)
_BLANK_LINE = re.compile(r"\n[ \t\r]*+\n")


@dataclass(frozen=True)
class Formula:
    """Half-open character span [start, end) with its delimiters."""

    start: int
    end: int
    is_display: bool  # it stands on its own
    is_picture: bool  # Asymptote code


def formulas(text: str) -> list[Formula]:
    """The outermost formulas, in order: `$…$`, `$$…$$`, `\\(…\\)`, `\\[…\\]`, environments, [asy].

    A delimiter without its partner is text. So is a `$` that must be a currency sign: no formula
    runs over a blank line or ends right before a digit ("$5 and $7"). None begins with a digit and
    ends with a blank ("$7. Then $x$").

    >>> [(f.start, f.end) for f in formulas("If $x=1$ then \\\\(y\\\\).")]
    [(3, 8), (14, 19)]
    """
    in_text = []
    end = 0
    for start, stop in _pairs(text):
        if start < end or (text[start] == "$" and _is_currency(text, start, stop)):
            continue
        end = stop
        opening = text[start : start + 2]
        is_display = opening != "\\(" and (opening == "$$" or opening[0] != "$")
        is_picture = opening[0] == "[" or text.startswith("\\begin{asy", start)
        in_text.append(Formula(start, stop, is_display, is_picture))
    return in_text


def _pairs(text: str) -> list[tuple[int, int]]:
    """(start, end) of every delimiter and its partner, by start; a `$` may have two partners."""
    pairs = []
    opened: defaultdict[str, list[int]] = defaultdict(list)
    last_dollar: dict[str, int] = {}
    for match in _DELIMITER.finditer(text):
        if dollars := match["dollars"]:
            if dollars in last_dollar:
                pairs.append((last_dollar[dollars], match.end()))
            last_dollar[dollars] = match.start()
        elif kind := match["begin"] or match["opening"]:
            opened[kind].append(match.start())
        elif stack := opened[match["end"] or _OPENING_OF.get(match[0], "")]:
            pairs.append((stack.pop(), match.end()))
    return sorted(pairs)


def _is_currency(text: str, start: int, end: int) -> bool:
    """True if the `$` at `start` and the one before `end` enclose no formula."""
    return not text.startswith("$$", start) and (
        text[end : end + 1].isdigit()
        or (text[start + 1].isdigit() and text[end - 2].isspace())
        or _BLANK_LINE.search(text, start, end) is not None
    )


def formula_places(text: str, formula: Formula) -> Iterator[tuple[int, bool]]:
    """(position, is_line_end) of each cut of a long formula, outside of brackets and matrices."""
    depth = 0
    end = formula.start if formula.is_picture else formula.end
    for match in _FORMULA_PART.finditer(text, formula.start, end):
        if match["opening"]:
            depth += 1
        elif match["closing"]:
            depth = max(depth - 1, 0)  # one too many, as in ]0, 1]
        elif depth == 0 and match["line_end"]:
            yield match.end(), True
        elif depth == 0 and match["relation"]:
            place = match.start()
            while text[place - 1] in " \t\n&":
                place -= 1
            yield place, False
