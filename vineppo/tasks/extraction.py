"""Finding the answer in a response: one small pure function for each way of stating it.

None of them raises, and each takes time linear in the text, whatever the text is.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping

Extractor = Callable[[str], str | None]

# Digits, with or without thousands commas, and decimals; possessive, so that no text backtracks.
_DECIMAL = r"(?:[0-9]{1,3}(?:,[0-9]{3})++(?![0-9])|[0-9]++)(?:\.[0-9]++)?|(?<![0-9])\.[0-9]++"
_WHOLE_NUMBER = re.compile(rf"[-+]?\$?(?:{_DECIMAL})")
# A minus behind a digit, letter or bracket subtracts. "x2" and "2nd" hold no number, "50km" does.
_NUMBER = re.compile(
    rf"(?:(?<![0-9A-Za-z_)\]}}])[-−])?\$?(?<![0-9A-Za-z_])(?:{_DECIMAL})(?:/[0-9]++)?"
    r"(?!(?:st|nd|rd|th)(?![A-Za-z]))"
)
_FINAL_ANSWER = re.compile(r"final answer is\b:?", re.IGNORECASE)
_HOPE = re.compile(r"I hope it is correct", re.IGNORECASE)
_ONE_FORMULA = re.compile(r"\$((?:[^$\\]|\\.)++)\$")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*+")
_ESCAPE_OR_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_UNBRACED_CONTENTS = re.compile(r"[^\s${}]++")


def extract_hash(text: str) -> str | None:
    """What follows the last "####" on its line; a number loses "$", commas and a trailing ".".

    `extract_hash("so 2*600 = 1,200\\n#### $1,200.") == "1200"`.
    """
    _, separator, rest = text.rpartition("####")
    if not separator:
        return None
    answer = rest.partition("\n")[0].strip().rstrip(".").rstrip()
    if _WHOLE_NUMBER.fullmatch(answer):
        answer = _plain(answer)
    return answer or None


def extract_boxed(text: str) -> str | None:
    """The contents of the last `\\boxed{…}` or `\\fbox{…}`, braces balanced; also `\\boxed 7`.

    None when that box is empty or never closes: an earlier box is not the final answer.
    `extract_boxed(r"hence $\\boxed{\\frac{1}{2}}$.") == r"\\frac{1}{2}"`.
    """
    box = _last_match(_BOX, text)
    if box is None:
        return None
    start = box.end()
    if text[start : start + 1] != "{":
        contents = _UNBRACED_CONTENTS.match(text, start)
        return contents[0].rstrip(".,") or None if contents else None
    depth = 0
    for token in _ESCAPE_OR_BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0 and token[0] == "}":
            return text[start + 1 : token.start()].strip() or None
    return None


def extract_final_answer(text: str) -> str | None:
    """What follows the last "final answer is" on its line, or is boxed there, without its "$".

    The form of Minerva's few-shot examples (Lewkowycz et al. 2022, arXiv:2206.14858):
    `extract_final_answer("The final answer is $3x$. I hope it is correct.") == "3x"`.
    """
    statement = _last_match(_FINAL_ANSWER, text)
    if statement is None:
        return None
    line = text[statement.end() :].strip().partition("\n")[0]
    if _BOX.search(line):
        return extract_boxed(line)
    hope = _HOPE.search(line)
    answer = (line[: hope.start()] if hope else line).strip().rstrip(".").strip()
    formula = _ONE_FORMULA.fullmatch(answer)
    # The sentence may also end within its formula: "is $-2 + 7i.$".
    return (formula[1].strip().rstrip(".").strip() if formula else answer) or None


def extract_last_number(text: str) -> str | None:
    """The last number: integer, decimal, or fraction of integers, without "$", commas and "%".

    `extract_last_number("It costs $1,234.50 in all.") == "1234.50"`; digits that belong to a word
    ("H2O", "2nd") are none.
    """
    number = _last_match(_NUMBER, text)
    return None if number is None else _plain(number[0])


def _last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None


def _plain(number: str) -> str:
    return number.replace(",", "").replace("$", "").replace("−", "-")


EXTRACTORS: Mapping[str, Extractor] = {
    "hash": extract_hash,
    "boxed": extract_boxed,
    "final_answer": extract_final_answer,
    "last_number": extract_last_number,
}
