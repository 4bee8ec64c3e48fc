"""Answers as text: found in a response, brought to one notation, cut into parts, read as numbers.

Pure text work, which computes nothing. It takes time linear or nearly linear in the text, whatever
the text is; no extractor raises.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

_END = r"(?![A-Za-z])"  # of a LaTeX command's name
# "4!=24" is a factorial, "x!=3" is not.
EQUALS = re.compile(r"(?<![<>:])(?<!(?<![0-9])!)=")
ABOUT = re.compile(r"\\(?:approx(?:eq)?|simeq|doteq)(?![A-Za-z])|[≈≃]")
NAME = re.compile(r"\s*(?:[A-Za-z]+|\\text\{[^{}0-9]*\})(?:_\w|_\{\w+\})?'?(?:\([A-Za-z]\))?\s*")
OPERATION = re.compile(
    r"[+*/^!=]|[\w)}]\s*-|\\(?:frac|sqrt|cdot|times|div|binom|sum|prod|int|lim|log|ln|sin|cos|tan)"
    r"|[\w)}]\s*\\begin\{|\\begin\{vmatrix"
)

# (pattern, replacement), in this order.
_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("[−–]", "-"),
        (r"°|\\degree" + _END, r"^\\circ"),
        (r"\\(?:left|right|[bB]igg?[lr]?)" + _END + r"\.?", ""),
        (
            r"\\(?:(?:display|text|script)style|limits|tiny|small|[lL]arge|LARGE|[hH]uge"
            r"|(?:bf|it|rm|sf|tt)(?:series|shape|family)?)" + _END,
            "",
        ),
        (r"\\(?:(?:text)?color|phantom)\s*\{[^{}]*\}", ""),
        (r"\\[dtc](frac|binom)" + _END, r"\\\1"),
        (
            r"\\(?:text[a-z]*|[mhf]box|boxed|math(?:rm|bf|it|sf|tt)|bm|bold(?:symbol)?|emph|underline)"
            r"\s*\{",
            r"\\text{",
        ),
        # Currencies but the dollar, which also marks formulas.
        (r"[¢-¥\u20a0-\u20cf\uffe1\uffe5]|\\(?:euro|pounds|yen)" + _END, ""),
        (r"\\text\{\s*(?:\\?\$)?\s*\}", ""),
        (r"(?<=\\\\)\s*\*?\s*\[\s*-?[0-9.]+\s*[a-z]+\s*\]", ""),  # the height of a matrix's row
        (r"(?<!\\)\$|(?<!\\)\\[()\[\]]", ""),
        # Groups of digits: 12{,}345, 12,\!345 and 12\,345. (Plain commas may separate a list.)
        (r"(?<=[0-9])(?:\{,\}|,\s*\\!\s*|\\[,!])(?=[0-9]{3}(?![0-9]))", ""),
        (r"\\!", ""),
        (r"\\(?:hspace\*?\{[^{}]*\}|newline" + _END + r")|(?:\\[,;:> ]\s*){2,}", r"\\quad "),
        # Between two equations, but before an arrow.
        (
            r"(?<=[0-9)}\]])[ ,]*\\q?quad(?!\s*\\(?:\w*arrow|implies))(?=\s*[^=,\s][^=,]{0,20}=)",
            ", ",
        ),
        (r"(?<!\\)\\[,;:> ]|\\q?quad" + _END + "|~", " "),
        (r"\\([%$])", r"\1"),
        (r"\\text\{\s*(?:percent|%)\s*\}|(?<![A-Za-z])percent" + _END, "%"),
        (r"\^\{\s*\\circ\s*\}", r"^\\circ"),
        (r"\\lbrace" + _END, r"\\{"),
        (r"\\rbrace" + _END, r"\\}"),
        (r"\\([lgn])e" + _END, r"\\\1eq"),
        (r"\\mid" + _END, "|"),
        (":=", "="),
        (
            r";|,?\s*(?:\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)" + _END + ")",
            ", ",
        ),
        (r"(^|[(\[{,=<>&])\s*\+(?=\s*[\w.\\])", r"\1"),  # a sign, not a sum
        (r"\s+", " "),
        (r"\} \{", "}{"),
        (r"\\(frac|binom|sqrt) ?(\\[A-Za-z]+|[0-9A-Za-z])", r"\\\1{\2}"),
    )
)
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z]{2})")  # elsewhere the end of a row
_TWO_ARGUMENTS = re.compile(r"\\(?:frac|binom)(?=\{)")
_ARGUMENT = re.compile(r" ?(\\[A-Za-z]+|[0-9A-Za-z])")
_MARKED = re.compile(r"(?:\\text\s*)?\{")
TEXT = re.compile(r"\\text\{([^{}]*)\}")
_DIGIT_GROUPS = re.compile(r"(?<![0-9.,])(?<![0-9] )[0-9]{1,3}(?: [0-9]{3})+(?! ?[0-9])")
_BLANK = re.compile(r"(?<![0-9.])\s|\s(?![0-9.])")  # not between two numbers: 3 4 is not 34
_BRACED_SCRIPT = re.compile(r"(?<=[_^])\{(\w+)\}")
_COMMA = re.compile(",")
_MATRIX = re.compile(
    r"\\begin\{[pb]matrix\}((?:(?!\\begin|\\end).)*+)\\end\{[pb]matrix\}", re.DOTALL
)
_ESCAPE_OR_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
PLAIN_FRACTION = re.compile(r"\\frac\{\s*\$?(-?[0-9., ]+?)\s*\}\{\s*(-?[0-9., ]+?)\s*\}")
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})++|[0-9]{1,3}(?:[ ][0-9]{3})++|[0-9]++)"
_LITERAL = re.compile(
    rf"""(?P<sign>[-+]?)\s*(?:\$\s*(?P<sign_behind_currency>-?))?(?:
        (?:(?P<whole>{_DIGITS})\ +(?=[0-9, ]+/\s*[0-9]))?
        (?P<above>[-+]?{_DIGITS})\s*/\s*(?P<below>-?{_DIGITS})
      | (?P<mantissa>[1-9](?:\.[0-9]+)?)\s*(?:\\times|\\cdot|×)\s*10\^
        (?P<exponent>\{{-?[0-9]{{1,3}}\}}|[0-9])
      | (?P<decimal>{_DIGITS}(?:\.[0-9]*+)?|\.[0-9]++)
    )(?P<unit>.*)""",
    re.VERBOSE,
)
_POWER = r"(?:\^[23]|\^\{[23]\}|[²³])?"
_WORD = r"(?:[A-Za-z](?:[A-Za-z.']|-(?=[A-Za-z]{2}))+|[mghs](?![A-Za-z]))"
_UNIT = re.compile(
    rf"""\s*(?:
        (?P<percent>%)(?:\s+[a-z]+)*
      | \^?\\circ\s*(?:[CF]|\\text\{{[^{{}}0-9]*\}})?
      | _(?:\{{(?P<base>[1-9][0-9]?)\}}|(?P<base_>[1-9][0-9]?))
      | (?:\s*\\text\s*\{{[^{{}}0-9]*\}}{_POWER})+
      | (?:(?<=\ )|(?=[kcm]?m(?![a-z])|mph|ft|in(?![a-z])|[kmg]?g(?![a-z])|lbs?|hrs?|mins?|secs?))
        {_WORD}{_POWER}(?:[ /]+{_WORD}{_POWER})*
    )?\s*""",
    re.VERBOSE,
)
# Words behind a number that change it.
NO_UNIT = re.compile(
    r"(?i:factorial|squared|cubed|hundred|thousand|[mbtr]+illion|dozen|plus|minus|times|mod|choose"
    r"|over|by|to|not|half|halves|thirds?|quarters?)(?![a-z])|(?<![a-z])k(?![a-z])"
    # Functions and constants; "roots" are counted.
    r"|(?i:(?<![a-z])(?:pi|e(?!-)|exp|sqrt|cbrt|root(?= ?[a-z])|(?:square|cube) root|log|ln|lg"
    r"|(?:arc)?(?:sin|cos|tan|cot|csc)h?|gcd|lcm|zero|infinity)(?![a-z]))"
    # Fractions: fifths, hundredths, but not months.
    r"|(?i:(?<![a-z])(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|[a-z]*(?:teen|tie)|hundred"
    r"|thousand|[mbtr]+illion)ths?(?![a-z]))"
    # Products of variables: xy, abc, XY, pq.
    r"|(?<![A-Za-z'.-])(?!cab|cc)(?:[abcxyz]{2,3}|[XYZ]{2,3}|mn|nk|kn|pq|qp|pqr|rt|uv|vw"
    r"|[abcknpqrstuv][xyz])(?![A-Za-z'.-])"
)


def closing_braces(text: str) -> dict[int, int]:
    """The end of each closed brace, by its start; escaped braces do not count."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for token in _ESCAPE_OR_BRACE.finditer(text):
        if token[0] == "{":
            opened.append(token.start())
        elif token[0] == "}" and opened:
            closing[opened.pop()] = token.start()
    return closing


@lru_cache(maxsize=4096)
def normalize(text: str) -> str:
    r"""The text in one notation, without the marks around it.

    `normalize(r"$\dfrac\pi2.$") == r"\frac{\pi}{2}"`, `normalize(r"\text{A,D}") == "A,D"` and
    `normalize(r"3\text{ and }12{,}345") == "3, 12345"`.
    """
    if r"\begin" not in text:
        text = _DOUBLED.sub(r"\\", text).replace(r"\\", ", ")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text, bare = _with_braced_arguments(text), None
    while bare != text:
        bare = text
        text = text.strip(" \n").rstrip(".,: $").removeprefix(r"\approx").lstrip()
        mark = _MARKED.match(text)
        if mark and closing_braces(text).get(mark.end() - 1) == len(text) - 1:
            text = text[mark.end() : -1]
    return text


@lru_cache(maxsize=4096)
def squeeze(text: str) -> str:
    """The text without blanks, text marks and needless braces, to be compared with another."""
    text = _DIGIT_GROUPS.sub(lambda groups: groups[0].replace(" ", ""), TEXT.sub(r"\1", text))
    return _BRACED_SCRIPT.sub(r"\1", _BLANK.sub("", text))


def _with_braced_arguments(text: str) -> str:
    r"""`\frac{5}8` becomes `\frac{5}{8}`; the first argument has its braces."""
    place = 0
    while command := _TWO_ARGUMENTS.search(text, place):
        place = command.end()
        closing = closing_braces(text).get(place)
        if closing is not None and (second := _ARGUMENT.match(text, closing + 1)):
            text = f"{text[: closing + 1]}{{{second[1]}}}{text[second.end() :]}"
    return text


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The text cut at the separators outside of brackets."""
    parts, start = [], 0
    depths = _depths(text)
    for match in separator.finditer(text):
        if depths[match.start()] == 0 and match.start() >= start:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _depths(text: str) -> list[int]:
    """The brackets that are open behind each character."""
    return list(accumulate((char in "([{") - (char in ")]}") for char in text))


def list_items(text: str) -> list[str]:
    """The text cut at the commas outside of brackets: "(1,2), 3" gives ["(1,2)", " 3"]."""
    return split(text, _COMMA)


def bracketed_items(text: str) -> tuple[str, list[str]]:
    r"""The brackets around a whole text and the items in them; ("", []) without.

    `bracketed_items("(1,[2,3])") == ("()", ["1", "[2,3]"])`, `bracketed_items("(1)(2)")[0] == ""`.
    The brackets of a matrix of two rows are r"\\\\".
    """
    if matrix := _MATRIX.fullmatch(text):
        rows = matrix[1].strip().removesuffix(r"\\").split(r"\\")
        return r"\\" * len(rows), [cell for row in rows for cell in row.split("&")]
    match = re.fullmatch(r"(\\\{|[(\[])(.*?)(\\\}|[)\]])", text, re.DOTALL)
    if match is None or 0 in _depths(text)[len(match[1]) - 1 : -1]:
        return "", []
    return match[1] + match[3], list_items(match[2])


@dataclass(frozen=True)
class Literal:
    """A number as it is written out."""

    value: Fraction
    step: Fraction  # what its last digit counts: 1/100 in 3.14
    is_fraction: bool
    is_decimal: bool
    is_percent: bool
    base: str | None  # the digits of a subscript


@lru_cache(maxsize=4096)
def literal(text: str) -> Literal | None:
    r"""The number that a normalized text writes out, with or without unit; None for all else.

    A fraction and a mixed number are numbers: `literal(r"3\frac{1}{2} \text{ cm}").value == 7/2`.
    A sum, a product, a root or a power other than of ten is to be computed: `literal("3+4")` is
    None.
    """
    brackets, inside = bracketed_items(text) if text[:1] == "(" else ("", [])
    if brackets:
        return literal(inside[0].strip()) if brackets == "()" and len(inside) == 1 else None
    number = _LITERAL.fullmatch(PLAIN_FRACTION.sub(r" \1/\2", text).strip())
    unit = number and _UNIT.fullmatch(number["unit"])
    if number is None or unit is None or NO_UNIT.search(number["unit"]):
        return None
    # By Decimal, as int refuses texts of 5,000 digits.
    whole, above, below, mantissa, decimal = (
        Fraction(Decimal(re.sub("[, ]", "", number[group] or "0")))
        for group in ("whole", "above", "below", "mantissa", "decimal")
    )
    if number["below"]:
        if below == 0:
            return None
        above /= below
    power = Fraction(10) ** int((number["exponent"] or "0").strip("{}"))
    value = whole + above + decimal + mantissa * power
    digits = number["mantissa"] or number["decimal"] or ""
    return Literal(
        value=-value if (number["sign"] == "-") != bool(number["sign_behind_currency"]) else value,
        step=power / 10 ** len(digits.partition(".")[2]),
        is_fraction=bool(number["below"]) and not number["whole"],
        is_decimal="." in digits,
        is_percent=unit["percent"] is not None,
        base=unit["base"] or unit["base_"],
    )


Extractor = Callable[[str], str | None]

# Digits, in groups of three or not, and decimals; possessive, so that no text backtracks.
_GROUPS = "|".join(
    rf"(?:{separator}[0-9]{{3}})++" for separator in (",", " ", r"\{,\}", r",\\!", r"\\[,!]")
)
_DECIMAL = rf"(?:[0-9]{{1,3}}(?:{_GROUPS})(?![0-9])|[0-9]++)(?:\.[0-9]++)?|(?<![0-9])\.[0-9]++"
_NO_DIGIT_OF_NUMBER = re.compile(r"[$, {}\\!]")
_WHOLE_NUMBER = re.compile(rf"[-+]?\$?(?:{_DECIMAL})")
# A minus behind a digit, letter or bracket subtracts. "x2" and "2nd" hold no number, "50km" does.
_NUMBER = re.compile(
    rf"(?:(?<![0-9A-Za-z_)\]}}])[-−])?\$?(?<![0-9A-Za-z_])(?:{_DECIMAL})(?:/[0-9]++)?"
    r"(?!(?:st|nd|rd|th)(?![A-Za-z]))"
)
_FINAL_ANSWER = re.compile(r"final answer is\b:?", re.IGNORECASE)
_ANSWER = re.compile(r"(?<![A-Za-z])answer[*_]{0,3}\s{0,9}:", re.IGNORECASE)
_HOPE = re.compile(r"I hope it is correct", re.IGNORECASE)
_ONE_FORMULA = re.compile(r"\$((?:[^$\\]|\\.)++)\$")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*+")
# What stands between the parts of one answer: "$ and $k = ".
_MAX_BETWEEN = 40
_BETWEEN_PARTS = re.compile(
    r"[\s$]*(?:[,;]|[,;]?[\s$]*(?:\\text\s*\{\s*)?(?:and|or)\b\s*\}?)[\s$]*"
    r"(?:[A-Za-z](?:\([A-Za-z]\))?\s*=)?[\s$]*"
)
# Markdown's emphasis, as in **73**; marks without partner stand around what began before.
_EMPHASIS = re.compile(r"(?<![\w*_`])([*_`]++)(?!\s)([^*_`\n]++)(?<!\s)\1(?![\w*_`])")
_LOOSE_EMPHASIS = re.compile(r"^\*\*+|(?<!\*)\*\*+$")
# Up to the next box, so that each character is looked at once.
_UNBRACED_CONTENTS = re.compile(r"(?:[^\s${}\\]|\\(?!(?:boxed|fbox)(?![A-Za-z])))++")


def extract_hash(text: str) -> str | None:
    """The text behind the last "####" on its line; a number loses "$", commas and a last "."."""
    _, separator, rest = text.rpartition("####")
    if not separator:
        return None
    answer = _without_emphasis(rest.partition("\n")[0]).rstrip(".").rstrip()
    if _WHOLE_NUMBER.fullmatch(answer):
        answer = _plain(answer)
    return answer or None


def extract_boxed(text: str) -> str | None:
    r"""The contents of the last `\boxed{…}` or `\fbox{…}`, braces balanced; also `\boxed 7`.

    Boxes with nothing but "and", "or", commas and a name between them are one answer of several
    parts: `extract_boxed(r"$x=\boxed{1}$ or $x=\boxed{2}$") == "1, 2"`. None when the last box is
    empty or never closes: an earlier box is not the final answer.
    """
    parts: list[tuple[int, int]] = []
    end = 0
    for start, contents, end_of_box in _boxes(text):
        # An inner box begins before the outer one ends, and counts alone.
        if not (end <= start <= end + _MAX_BETWEEN and _BETWEEN_PARTS.fullmatch(text, end, start)):
            parts.clear()
        parts.append(contents)
        end = end_of_box
    texts = dict.fromkeys(_contents(text, part) for part in parts)
    return (", ".join(texts) or None) if all(texts) else None


def boxed_contents(text: str) -> list[str]:
    """The contents of each box, from the first to the last; "" for a box that never closes."""
    return [_contents(text, contents) for _, contents, _ in _boxes(text)]


def _boxes(text: str) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Where each box begins, where its contents do and end, and where it ends."""
    closing = closing_braces(text)
    for box in _BOX.finditer(text):
        start = box.end()
        if text[start : start + 1] == "{":
            end = closing.get(start, start)
            yield box.start(), (start + 1, end), end + 1
        else:
            bare = _UNBRACED_CONTENTS.match(text, start)
            end = start + len(bare[0].rstrip(".,")) if bare else start
            yield box.start(), (start, end), end


def _contents(text: str, place: tuple[int, int]) -> str:
    contents = text[slice(*place)].strip()
    emphasized = _EMPHASIS.fullmatch(contents)
    return emphasized[2] if emphasized else contents


def extract_final_answer(text: str) -> str | None:
    """The text behind the last "final answer is" on its line, or the box there, without its "$".

    The form of Minerva's few-shot examples (Lewkowycz et al. 2022, arXiv:2206.14858):
    `extract_final_answer("The final answer is $3x$. I hope it is correct.") == "3x"`.
    """
    return _stated_behind(_FINAL_ANSWER, text)


def extract_answer(text: str) -> str | None:
    """The text behind the last "Answer:" on its line, as `extract_final_answer` reads it.

    DAPO's prompts ask for it (arXiv:2503.14476): `extract_answer("Answer: $34$") == "34"`.
    """
    return _stated_behind(_ANSWER, text)


def _stated_behind(mark: re.Pattern[str], text: str) -> str | None:
    _, *statements = mark.split(text)
    if not statements:
        return None
    line = statements[-1].removeprefix("**").strip().partition("\n")[0]
    if _BOX.search(line):
        return extract_boxed(line)
    answer = _without_emphasis(_HOPE.split(line, maxsplit=1)[0]).rstrip(".").strip()
    formula = _ONE_FORMULA.fullmatch(answer)
    # The sentence may also end within its formula: "is $-2 + 7i.$".
    return (formula[1].strip().rstrip(".").strip() if formula else answer) or None


def _without_emphasis(answer: str) -> str:
    """`_without_emphasis("**73**") == "73"`, also if one of the marks is outside of the text."""
    return _LOOSE_EMPHASIS.sub("", _EMPHASIS.sub(r"\2", answer.strip()).rstrip(".")).strip()


def extract_last_number(text: str) -> str | None:
    """The last number: integer, decimal, or fraction of integers, without "$", commas and "%".

    `extract_last_number("It costs $1,234.50 in all.") == "1234.50"`; "H2O" and "2nd" have none.
    """
    numbers = _NUMBER.findall(text)
    return _plain(numbers[-1]) if numbers else None


def _plain(number: str) -> str:
    return _NO_DIGIT_OF_NUMBER.sub("", number.replace("−", "-"))


EXTRACTORS: Mapping[str, Extractor] = {
    "hash": extract_hash,
    "boxed": extract_boxed,
    "final_answer": extract_final_answer,
    "answer": extract_answer,
    "last_number": extract_last_number,
}
