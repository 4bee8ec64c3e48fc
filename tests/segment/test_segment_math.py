"""The MATH rule: sentences, lines, parts of long formulas; on any text, in linear time."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vineppo.segment.latex import formulas
from vineppo.segment.math import cuts

DELIMITERS = r"""$ $$ \( \) \[ \] \begin{align*} \end{align*} \begin{array} \end{array} [asy] [/asy]
    \\ \ \boxed{ { } ( ) = < & \left \right. \leq 3.14 ... word So e.g."""
LATEX = st.lists(
    st.sampled_from(
        [*DELIMITERS.split(), " ", "\n", "\n\n", ". ", "? ", "! ", "\x00", "😀", "٣", "e.g. "]
    )
    | st.text(max_size=5),
    max_size=60,
).map("".join)
UNITS = r"$ $$ \ \[ \begin{align} \end{align} { . 😀 [asy] 1. .)"
BLANK_UNITS = [
    *("\n", " ", ", ", "x ", "\\[=\\]", "\\[=\\] ", ". ", "! ", "\x00", "a. ", ". A", "\n,"),
    *("\\boxed\n", "= ", "$x = y$ "),
]


def parts(text, max_formula_chars=100):
    edges = [0, *cuts(text, max_formula_chars), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(
    "marked",
    [
        # No sentence ends at these full stops.
        "We have 3.14 apples in the big basket and 2.5 pears.",
        "It holds e.g. For primes, i.e. Numbers with two divisors, cf. Euler vs. Gauss.",
        "This follows from Theorem no. 4 as Mr. Smith and J. Doe have shown in Fig. 3 there.",
        "There are 3! Orders, and (n+1)! Orders of the longer list of things.",
        "The sum is 1, 2, ... 10 and so on, or one, two, ... and more of the same.",
        "He ended at 5 p.m. on the very same day as he began with all of this work.",
        r"We see $f(x) = 3. 5$ and $\text{A man. He ran}$ and \(a. B\) and \[c. D\] in it.",
        r"Consider the \begin{pmatrix} 1. & 2 \\ A. & B \end{pmatrix} of the linear system",
        # Sentences and lines; the first part of the second text is too short to stand alone.
        "The first statement ends.| The second one asks?| Then we shout!| 12 is left.",
        "It is known that $x = 3.$|  Then the rest follows.| $y$ is next.",
        "The sum is equal to\n\\[a + b.\\]|Therefore we are done.",
        "1. First we add the numbers.\n|2. Then we divide the sum.",
        "Step 1. We add the two numbers\n\n|Step 2. We divide them",
        'He said "we are done here."| Then he left the room.',
        "He pays $5 for the one.| She pays $7 for the other.| They are even.",
        # A display that states something is a step, however short it is.
        "We subtract\n\\[2000 + x = 5400\\]\n|so that we know the number of all.",
        "We set up\n\\[x + y = 5\\]\n|\\[x = 3.\\]\n\n|$$y = 2$$| $$x < 4$$|Thus we are done.",
        "\\[ABC\\]\nis the area that we look for",
        "As \\[x = 5\\]\n|and\n\\[\\boxed{5}\\]",
    ],
)
def test_cuts_are_at_the_bars(marked):
    assert parts(marked.replace("|", "")) == marked.split("|")


ALIGNED = (
    "\\begin{align*}\nS &= 1 + 2 + 3 + 4 + 5 \\\\\n|&= 1 + 2 + 3 + 9 \\\\[2pt]\n|"
    "&= 15 + 0 + 0\n\\end{align*}"
)
MATRIX = r"\[\begin{array}{c} aaaaaaaaaaaaa = 1 \\ bbbbbbbbbbbbbbbb = 2 \\ c \end{array}\]"
FORMULA = r"\[f(a = 1) + \sqrt{b = 2222}% = 3333333333 + 44444444| \leq 555555555555555555\]"


@pytest.mark.parametrize(
    ("marked", "max_formula_chars"),
    [
        (FORMULA.replace("|", "").replace("%", ""), 80),
        (FORMULA.replace("%", ""), 55),
        (FORMULA.replace("%", "|"), 30),
        (ALIGNED, 60),
        (MATRIX, 20),
        # The answer stays with its statement.
        (r"So the answer that we were asked for is $\boxed{5}$.", 30),
        ("So the answer that we were asked for is\n\\[\\boxed{5}\\]", 30),
        (
            r"\[aaaaaaaaaaaaaaaaaaaaaaaaaaaa + bbbbbbbbbbbbbbbbbbbb = \boxed{555555555555555}\]",
            30,
        ),
    ],
)
def test_long_formulas_are_cut_at_the_bars(marked, max_formula_chars):
    """At top-level relation signs and ends of lines, and a matrix nowhere."""
    assert parts(marked.replace("|", ""), max_formula_chars) == marked.split("|")


def test_a_long_sentence_is_cut_between_its_clauses_outside_formulas():
    clause = " and the number of all such pairs is $5, 6$"
    text = f"{clause},{clause};{clause}:{clause},{clause}."
    assert len(text) > 200
    assert parts(text) == [f"{clause},{clause};{clause}:{clause},", f"{clause}."]
    assert cuts(text[-200:], 100) == []
    # No clause ends near enough: between words.
    found = parts("word " * 100 + "$" + "x " * 300 + "$" + " word" * 100)
    assert [len(part) for part in found] == [199, 200, 100, 1 + 602, 200, 200, 100]


@given(LATEX, st.integers(1, 120))
def test_any_text_is_partitioned_into_parts_that_say_something(text, max_formula_chars):
    found = cuts(text, max_formula_chars)
    assert found == sorted(set(found))
    assert all(0 < cut < len(text) for cut in found)
    assert all(any(char.isalnum() for char in part) for part in parts(text, max_formula_chars)[1:])


@given(LATEX)
def test_formulas_are_disjoint_and_short_ones_are_never_cut(text):
    found = formulas(text)
    assert all(a.end <= b.start for a, b in pairwise(found))
    inside = {cut for cut in cuts(text, 10**9) for f in found if f.start < cut < f.end}
    assert inside == set()


@pytest.mark.parametrize("unit", [*UNITS.split(), *BLANK_UNITS])
@pytest.mark.parametrize("frame", ["{}", "\\[{}=\\]", "So.{}=. A"])
def test_a_hundred_thousand_characters_take_no_more_than_a_moment(unit, frame):
    text = frame.replace("{}", unit * (100_000 // len(unit)))
    start_s = time.process_time()
    cuts(text, 50)
    # Linear work takes 0.3 s at most; quadratic work on this length takes minutes.
    assert time.process_time() - start_s < 5
