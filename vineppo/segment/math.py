"""Steps are sentences, lines, and the parts of long formulas: the rule of VinePPO for MATH.

Source: arXiv:2410.01679, appendix on step boundaries. Departures from its published code: formulas
are found in one pass and nothing is replaced by placeholders, so no text can make it raise;
newlines within a formula are no cuts (TeX does not see them), line ends `\\\\` and relation signs
are; `\\boxed` stays with the statement it concludes.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise, zip_longest

from vineppo.segment.latex import Formula, formula_places, formulas

# Shorter parts carry no statement of their own ("Therefore,", "x"); the published code's bound.
MIN_PART_CHARS = 20
# Longer sentences are cut between their clauses.
MAX_SENTENCE_CHARS = 200

# Possessive runs and bounded windows keep the whole linear in the text.
_WINDOW_CHARS = 80
_QUOTES = r"[\"'”’)\]*_]*+"
_BREAK = re.compile(rf"(?P<newlines>\n(?:[ \t\r]*+\n)*+)|(?P<stop>[.?!]){_QUOTES}(?=[ \t])")
_GAP = re.compile(r"(?P<clause>[,;:](?=\s))|\s++")
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


def cuts(text: str, max_formula_chars: int) -> list[int]:
    """Positions at which a step begins, ascending, never at 0.

    1. After a run of newlines outside formulas.
    2. After `.`, `?` or `!` that ends a sentence, before the blank that follows (a token such as
       " So" carries that blank); not in decimals, abbreviations, numberings and formulas. A
       sentence may end within the formula that ends it (`$x = 3.$  So …`).
    3. In a formula longer than `max_formula_chars`: after line ends, and, in a line still longer,
       at the top-level relation signs that leave the fewest parts of at most that length.
    4. After a display that another one or a capital letter follows.
    5. In what is longer than 200 characters even so, outside formulas: after commas, semicolons and
       colons, or failing those at blanks.

    Then a part under 20 characters that neither ends a sentence nor is a display with a relation
    sign (`\\[2000 + x = 5400\\]`) joins the next one, and `\\boxed` joins the part before it where
    nothing but a relation sign and the like stands between.

    >>> text = "We know that $a = 2.5$ here. So $a^2 = 6.25.$  Then we are done."
    >>> [text[i:] for i in cuts(text, max_formula_chars=100)]
    [' So $a^2 = 6.25.$  Then we are done.', '  Then we are done.']
    """
    in_text = formulas(text)
    places = {*_text_cuts(text, in_text)}
    for formula in in_text:
        places.update(_formula_cuts(text, formula, max_formula_chars))
        if _sentence_ends_with(text, formula):
            places.add(formula.end)
    places.update(_display_ends(text, in_text))
    places.update(_clause_cuts(text, in_text, sorted(places)))
    statements = {formula.end for formula in in_text if _is_statement(text, formula)}
    return _join_fragments(text, sorted(places), statements)


def _text_cuts(text: str, in_text: list[Formula]) -> list[int]:
    """Newlines and sentence ends outside the formulas."""
    return [
        match.end()
        for match in _outside(_BREAK, text, in_text)
        if match["newlines"] or _ends_sentence(text, match.start(), match.end())
    ]


def _outside(
    pattern: re.Pattern[str], text: str, in_text: list[Formula]
) -> Iterator[re.Match[str]]:
    """The matches that begin outside the formulas."""
    ahead = iter(in_text)
    formula = next(ahead, None)
    for match in pattern.finditer(text):
        while formula is not None and formula.end <= match.start():
            formula = next(ahead, None)
        if formula is None or match.start() < formula.start:
            yield match


def _ends_sentence(text: str, stop: int, end: int) -> bool:
    """Whether the `.`, `?` or `!` at `stop`, with the quotes up to `end`, ends a sentence."""
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


def _sentence_ends_with(text: str, formula: Formula) -> bool:
    """Whether the full stop of a sentence stands before the formula's closing delimiter."""
    if formula.is_picture or not (formula.is_display or text[formula.end : formula.end + 1] == " "):
        return False
    tail = _window(text, formula.start, formula.end)
    return bool(_FORMULA_STOPPED.search(tail)) and _begins_sentence(_next_char(text, formula.end))


def _display_ends(text: str, in_text: list[Formula]) -> list[int]:
    """The ends of the displays that another display or a new sentence follows."""
    ends = []
    for formula, following in zip_longest(in_text, in_text[1:]):
        is_run = (
            following is not None
            and following.is_display
            and not text[formula.end : following.start].strip()
        )
        if formula.is_display and (is_run or _next_char(text, formula.end).isupper()):
            ends.append(formula.end)
    return ends


def _is_statement(text: str, formula: Formula) -> bool:
    """Whether a display says something however short it is: it has a relation sign."""
    if formula.is_picture or not formula.is_display:
        return False
    return any(not is_line_end for _, is_line_end in formula_places(text, formula))


def _clause_cuts(text: str, in_text: list[Formula], places: list[int]) -> list[int]:
    """Where the parts that `places` leave are cut because they are too long."""
    gaps = [(match.start(), match["clause"]) for match in _outside(_GAP, text, in_text)]
    clauses = [start + 1 for start, clause in gaps if clause]
    blanks = [start for start, clause in gaps if not clause]
    at_clauses = _pack_parts(clauses, [0, *places, len(text)])
    at_blanks = _pack_parts(blanks, [0, *sorted({*places, *at_clauses}), len(text)])
    return at_clauses + at_blanks


def _pack_parts(gaps: list[int], edges: list[int]) -> list[int]:
    """`_pack` for every part between `edges`."""
    return [
        place
        for start, end in pairwise(edges)
        if end - start > MAX_SENTENCE_CHARS
        for inside in [gaps[bisect_right(gaps, start) : bisect_left(gaps, end)]]
        for place in _pack(inside, start, end, MAX_SENTENCE_CHARS)
    ]


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
    """Where a long formula is cut: line ends, and relation signs within lines that are too long."""
    if formula.is_picture or formula.end - formula.start <= max_chars:
        return []
    places: list[int] = []
    line_start, relations = formula.start, []
    for place, is_line_end in [*formula_places(text, formula), (formula.end, True)]:
        if not is_line_end:
            relations.append(place)
            continue
        places += _pack(relations, line_start, place, max_chars)
        if place < formula.end:
            places.append(place)
        line_start, relations = place, []
    return places


def _pack(places: list[int], start: int, end: int, max_chars: int) -> list[int]:
    """The fewest of `places` that leave parts of [start, end) of at most `max_chars`.

    Greedy from the left; where none is near enough, the next one is taken. None is taken that
    leaves a part under `MIN_PART_CHARS` at either end.

    >>> _pack([30, 60, 90], start=0, end=120, max_chars=70)
    [60]
    """
    taken = []
    last = previous = start
    for place in [*places, end]:
        if place < end and not (start + MIN_PART_CHARS <= place <= end - MIN_PART_CHARS):
            continue
        if place - last > max_chars and previous > last:
            taken.append(previous)
            last = previous
        previous = place
    return taken


def _join_fragments(text: str, places: list[int], statements: set[int]) -> list[int]:
    """Drops the cuts that would leave a part without a statement of its own.

    `statements` are ends of displays; the part that one of them ends has such a statement.
    """
    kept: list[int] = []
    start = 0
    for place, following in pairwise([*places, len(text)]):
        part = text[start : min(place, start + _WINDOW_CHARS)].rstrip()
        next_part = text[place:following]
        is_stopped = _STOPPED.search(_window(text, start, place)) is not None
        is_short = len(part.lstrip()) < MIN_PART_CHARS and start + len(part) not in statements
        is_fragment = is_short or 0 <= next_part.find("\\boxed") < MIN_PART_CHARS
        if part and (is_stopped or not is_fragment) and not _is_wordless(next_part):
            kept.append(place)
            start = place
    return kept


def _is_wordless(part: str) -> bool:
    """Whether a part is nothing but blanks and closing delimiters."""
    return not any(char.isalnum() for char in part)
