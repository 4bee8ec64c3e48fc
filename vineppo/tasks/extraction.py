"""Finding the answer in a response: one small pure function for each way of stating it.

None of them raises, and each takes time linear in the text, whatever the text is.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from vineppo.tasks.notation import closing_braces

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
