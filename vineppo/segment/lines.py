"""Steps are lines: the rule of VinePPO for GSM8K (arXiv:2410.01679, step boundaries)."""

import re

# Possessive, so that a newline followed by many blanks is read once.
_NEWLINE_RUN = re.compile(r"\n(?:[ \t\r]*+\n)*+")
_ANSWER_LINE = re.compile(r"[ \t]*####")


def cuts(text: str) -> list[int]:
    """Positions after each run of newlines; blank lines form no step of their own.

    A line that begins with `####` belongs to the step before it: the final answer restates that
    step and is no reasoning of its own. Newlines before the first word belong to the first step,
    those after the last word to the last.

    >>> cuts("2+3=5\\n\\n5*2=10\\n#### 10")
    [7]

    Only the cut before `5*2=10` is left: the blank line ends the first step, and the answer line
    joins the second.
    """
    first_word, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return [
        match.end()
        for match in _NEWLINE_RUN.finditer(text)
        if first_word < match.end() < end and not _ANSWER_LINE.match(text, match.end())
    ]
