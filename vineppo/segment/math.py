"""Steps are sentences, lines, and the parts of long formulas: the rule of VinePPO for MATH.

Source: arXiv:2410.01679, appendix on step boundaries. Its code replaces formulas by placeholders;
here one pass finds them, and no text can make it raise. Newlines within a formula are no cuts (TeX
does not see them), line ends `\\\\` and relation signs are.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from vineppo.config.schema.scalars import Count
from vineppo.segment import TextSegmenter
from vineppo.segment.latex import Formula, formula_places, formulas

MIN_PART_CHARS = 20  # shorter parts state nothing ("Therefore,"); the published code's bound
MAX_SENTENCE_CHARS = 200  # longer sentences are cut between their clauses
# Possessive runs and bounded windows keep the whole linear in the text.
_WINDOW_CHARS = 80
_QUOTES = r"[\"'”’)\]*_]*+"
_BREAK = re.compile(rf"(?P<newlines>\n(?:[ \t\r]*+\n)*+)|(?P<stop>[.?!]){_QUOTES}(?=[ \t])")
_CLAUSE_END, _BLANKS = re.compile(r"(?<=[,;:])(?=\s)"), re.compile(r"\s++")
_FORMULA_STOP = (
    r"(?<!\\right)(?<!\.)[.?]\s*+(?:\\end\{[A-Za-z]{1,20}\*?\}\s*+)*+(?:\$\$?|\\[)\]]|(?<=\}))"
)
_FORMULA_STOPPED = re.compile(rf"{_FORMULA_STOP}\Z")
_STOPPED = re.compile(rf"(?:[.?!]{_QUOTES}|{_FORMULA_STOP})\s*\Z")
_NEXT_CHAR = re.compile(r"[ \t]*+(.?)")
_ABBREVIATION = re.compile(
    r"(?:\A|[^A-Za-z.])(?:e\.?g|i\.?e|vs|cf|al|approx|resp|Dr|Mrs?|St|[A-Z])\Z"
)
_REFERENCE = re.compile(r"\b(?:[Nn]os?|[Ff]igs?|[Ee]qs?)\Z")
_NUMBERING = re.compile(
    r"(?:\n[ \t*#>-]*|\b(?:Case|Equation|Example|Fact|Lemma|Method|Part|Solution|Step)\s+)"
    r"\(?[0-9IVX]{1,3}\Z"
)


@dataclass(frozen=True)
class MathSegmenter(TextSegmenter):
    """Sentences, lines, and the parts of formulas longer than `max_formula_chars`."""

    max_formula_chars: Count

    def cuts(self, text: str) -> Sequence[int]:
        return cuts(text, self.max_formula_chars)


def cuts(text: str, max_formula_chars: int) -> list[int]:
    """Positions where a step begins, ascending, never at 0.

    1. After a run of newlines outside formulas.
    2. After `.`, `?` or `!` that ends a sentence, before the blank that follows; not in decimals,
       abbreviations, numberings and formulas. A formula may hold the full stop behind it.
    3. In a formula longer than `max_formula_chars`: after line ends, and, in a line still longer,
       at the top-level relation signs that leave the fewest parts of at most that length.
    4. After a display that another one or a capital letter follows.
    5. In what is longer than 200 characters even so, outside formulas: after commas, semicolons and
       colons, or failing those at blanks.

    Then a part under 20 characters that neither ends a sentence nor is a display with a relation
    sign joins the next one, and `\\boxed` joins the part before it.

    >>> text = "We know that $a = 2.5$ here. So $a^2 = 6.25.$  Then we are done."
    >>> [text[i:] for i in cuts(text, max_formula_chars=100)]
    [' So $a^2 = 6.25.$  Then we are done.', '  Then we are done.']
    """
    in_text = formulas(text)
    places = {
        match.end()
        for match in _outside(_BREAK, text, in_text)
        if match["newlines"] or _ends_sentence(text, match.start(), match.end())
    }
    for formula, following in zip_longest(in_text, in_text[1:]):
        places.update(_formula_cuts(text, formula, max_formula_chars))
        if _ends_step(text, formula, following):
            places.add(formula.end)
    for pattern in _CLAUSE_END, _BLANKS:
        gaps = [match.start() for match in _outside(pattern, text, in_text)]
        for start, end in pairwise([0, *sorted(places), len(text)]):
            if end - start > MAX_SENTENCE_CHARS:
                inner = gaps[bisect_right(gaps, start) : bisect_left(gaps, end)]
                places.update(_pack(inner, start, end, MAX_SENTENCE_CHARS))
    # A display with a relation sign says something, however short it is.
    statements = {
        formula.end
        for formula in in_text
        if formula.is_display and not all(is_end for _, is_end in formula_places(text, formula))
    }
    return _join_fragments(text, sorted(places), statements)


def _outside(
    pattern: re.Pattern[str], text: str, in_text: list[Formula]
) -> Iterator[re.Match[str]]:
    """The matches that begin outside the formulas."""
    starts = [formula.start for formula in in_text]
    for match in pattern.finditer(text):
        index = bisect_right(starts, match.start()) - 1
        if index < 0 or in_text[index].end <= match.start():
            yield match


def _ends_sentence(text: str, stop: int, end: int) -> bool:
    """True if the `.`, `?` or `!` at `stop`, with the quotes up to `end`, ends a sentence."""
    before = _window(text, 0, stop)
    following = _next_char(text, end)
    if not _begins_sentence(following):
        return False
    if text[stop] == "!":
        return not before.endswith((*"0123456789)",))  # a factorial
    if text[stop] == "?":
        return True
    if before.endswith("."):
        return following.isupper()  # "1, 2, ... 10" goes on
    if following.isdigit() and _REFERENCE.search(before):
        return False
    return not (_ABBREVIATION.search(before) or _NUMBERING.search(before))


def _ends_step(text: str, formula: Formula, following: Formula | None) -> bool:
    """True if a sentence ends within the formula, or a display before the next or a capital."""
    next_char = _next_char(text, formula.end)
    if formula.is_display:
        gap = text[formula.end : following.start] if following and following.is_display else "x"
        if next_char.isupper() or not gap.strip():
            return True
    elif text[formula.end : formula.end + 1] != " ":
        return False
    tail = _window(text, formula.start, formula.end)
    is_stopped = _FORMULA_STOPPED.search(tail) is not None
    return is_stopped and not formula.is_picture and _begins_sentence(next_char)


def _next_char(text: str, position: int) -> str:
    """The first character after the blanks at `position`, "" at the end of the line."""
    match = _NEXT_CHAR.match(text, position)
    assert match is not None
    return match[1]


def _begins_sentence(char: str) -> bool:
    return char != "" and not char.islower() and char not in "=+/^<>,;:.)]}%&|!?"


def _window(text: str, start: int, end: int) -> str:
    """The text before `end`, as far back as a sentence end is looked at; the text starts a line."""
    first = max(start, end - _WINDOW_CHARS)
    return ("\n" if first == 0 else "") + text[first:end]


def _formula_cuts(text: str, formula: Formula, max_chars: int) -> list[int]:
    """Cuts of a long formula: at line ends, and in long lines at relation signs."""
    if formula.end - formula.start <= max_chars:
        return []
    places: list[int] = []
    relations: list[int] = []
    line_start = formula.start
    for place, is_line_end in [*formula_places(text, formula), (formula.end, True)]:
        if is_line_end:
            places += [*_pack(relations, line_start, place, max_chars), place]
            line_start, relations = place, []
        else:
            relations.append(place)
    return places[:-1]  # the last is the formula's end


def _pack(places: list[int], start: int, end: int, max_chars: int) -> list[int]:
    """The fewest of `places`, none close to an end, that leave parts of at most `max_chars`."""
    inner = range(start + MIN_PART_CHARS, end - MIN_PART_CHARS + 1)
    taken = []
    last = previous = start
    for place in [*(place for place in places if place in inner), end]:
        if place - last > max_chars and previous > last:
            taken.append(previous)
            last = previous
        previous = place
    return taken


def _join_fragments(text: str, places: list[int], statements: set[int]) -> list[int]:
    """`places` without those that would leave a part that states nothing."""
    kept: list[int] = []
    start = 0
    for place, following in pairwise([*places, len(text)]):
        part = text[start : min(place, start + _WINDOW_CHARS)].rstrip()
        next_part = text[place:following]
        is_stopped = _STOPPED.search(_window(text, start, place)) is not None
        is_short = len(part.lstrip()) < MIN_PART_CHARS and start + len(part) not in statements
        is_fragment = is_short or 0 <= next_part.find("\\boxed") < MIN_PART_CHARS
        is_wordless = not any(char.isalnum() for char in next_part)  # closing delimiters
        if part and (is_stopped or not is_fragment) and not is_wordless:
            kept.append(place)
            start = place
    return kept
